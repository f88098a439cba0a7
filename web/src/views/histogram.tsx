// How many entries there were of each state over time, of those that were read so far.
// A range that is dragged over becomes the range of the view.

import { useMemo, useState } from "preact/hooks";

import type { Feed } from "../feed";
import { count, moment, plural, timeIn } from "../format";
import { setParams } from "../router";
import { states, type State } from "../types";
import { nameOf, toneOf } from "../ui/widgets";
import type { Row } from "./logs";

const bars = 96;
const height = 64;

const further = 10_000; // entries that are read at a wish

interface Props {
  feed: Feed<Row>;
  params: URLSearchParams;
}

export function Histogram({ feed, params }: Props) {
  const { rows, ended } = feed;
  const data = useMemo(() => tally(rows, params), [rows, rows.length, params.toString()]);
  const [from, setFrom] = useState<number | null>(null);
  const [to, setTo] = useState<number | null>(null);
  const barAt = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.max(0, Math.min(bars - 1, Math.floor(((event.clientX - box.left) / box.width) * bars)));
  };
  const choose = () => {
    if (from !== null && to !== null && from !== to) {
      const [low, high] = [Math.min(from, to), Math.max(from, to) + 1];
      setParams({ fromDate: String(Math.floor(data.start + low * data.width)), toDate: String(Math.ceil(data.start + high * data.width)) });
    }
    setFrom(null);
    setTo(null);
  };
  const chosen = params.getAll("state");
  return (
    <div class="histogram">
      <svg viewBox={`0 0 ${bars} ${height}`} preserveAspectRatio="none" role="img" aria-label={describe(rows, data)}
        onPointerDown={(event) => { setFrom(barAt(event)); setTo(barAt(event)); }}
        onPointerMove={(event) => from !== null && setTo(barAt(event))}
        onPointerUp={choose} onPointerLeave={() => { setFrom(null); setTo(null); }}>
        {data.bars.map((bar, i) => <Bar key={i} index={i} bar={bar} most={data.most} />)}
        {from !== null && to !== null && (
          <rect class="brush" x={Math.min(from, to)} y="0" width={Math.abs(to - from) + 1} height={height} />
        )}
      </svg>
      <p class="histogram-scale">
        <span>{rows.length > 0 && moment(data.start)}</span>
        <span>
          {rows.length > 0 && (ended ? `all ${plural(rows.length, "entry", "entries")}` : `of ${plural(rows.length, "entry", "entries")} read so far`)}
          {rows.length > 0 && !ended && !feed.full && <button class="quiet" onClick={() => void feed.upTo(rows.length + further)}>Read {count(further)} more</button>}
        </span>
        <span>{rows.length > 0 && moment(data.start + bars * data.width)}</span>
      </p>
      <div class="legend">
        {states.map((state) => (
          <button key={state} class={"legend-item " + toneOf(state)} aria-pressed={chosen.includes(state)}
            onClick={() => setParams({ state: chosen.includes(state) ? chosen.filter((other) => other !== state) : [...chosen, state] })}>
            {nameOf(state).toLowerCase()} <b>{count(data.totals.get(state) ?? 0)}</b>
          </button>
        ))}
      </div>
    </div>
  );
}

type Counts = Map<State, number>;

interface Tally {
  bars: Counts[];
  totals: Counts;
  start: number;
  width: number; // ms of a bar
  most: number; // entries in the highest bar
}

// tally counts rows, which are in order of time, in bars of the same width.
function tally(rows: Row[], params: URLSearchParams): Tally {
  const ends = rows.length === 0 ? [0, 0] : [rows[0]!.time, rows[rows.length - 1]!.time];
  const start = Math.min(...ends, timeIn(params.get("fromDate") ?? "") ?? Infinity);
  const end = Math.max(...ends);
  const width = Math.max(1, (end - start + 1) / bars);
  const counted: Counts[] = Array.from({ length: bars }, () => new Map());
  const totals: Counts = new Map();
  for (const row of rows) {
    const bar = counted[Math.min(bars - 1, Math.floor((row.time - start) / width))]!;
    bar.set(row.state, (bar.get(row.state) ?? 0) + 1);
    totals.set(row.state, (totals.get(row.state) ?? 0) + 1);
  }
  const most = Math.max(1, ...counted.map((bar) => [...bar.values()].reduce((sum, n) => sum + n, 0)));
  return { bars: counted, totals, start, width, most };
}

function Bar({ index, bar, most }: { index: number; bar: Counts; most: number }) {
  let top = height;
  return (
    <g>
      {states.filter((state) => bar.has(state)).map((state) => {
        const part = (bar.get(state)! / most) * (height - 2);
        top -= part;
        return <rect key={state} class={"fill-" + toneOf(state)} x={index + 0.08} y={top} width="0.84" height={part} />;
      })}
    </g>
  );
}

function describe(rows: Row[], data: Tally): string {
  const parts = states.filter((state) => data.totals.has(state)).map((state) => `${data.totals.get(state)} ${nameOf(state).toLowerCase()}`);
  return rows.length === 0 ? "No entries" : `States over time: ${parts.join(", ")}`;
}
