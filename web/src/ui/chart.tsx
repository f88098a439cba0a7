// Charts over time: stacked bars, and bands of lines. They are drawn to fill their box, and what
// is under the pointer is read out below.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { count } from "../format";

export interface Bucket {
  time: number;
  until: number; // ms, inclusive
}

interface FrameProps {
  title: string;
  buckets: Bucket[];
  most: number; // of the vertical axis
  show: (value: number) => string; // of a value on that axis
  summary: string; // what the chart shows, for those who do not see it
  legend: ComponentChildren;
  readOut: (index: number) => ComponentChildren; // of one bucket
  onOpen: (bucket: Bucket) => void;
  timeOf: (bucket: Bucket) => string;
  children: ComponentChildren; // drawn in a box that is as wide as there are buckets, and 1 high
}

// Chart is the frame of a chart.
export function Chart({ title, buckets, most, show, summary, legend, readOut, onOpen, timeOf, children }: FrameProps) {
  const [at, setAt] = useState<number | null>(null);
  const indexOf = (event: PointerEvent | MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    return Math.max(0, Math.min(buckets.length - 1, Math.floor(((event.clientX - box.left) / box.width) * buckets.length)));
  };
  const hovered = at === null ? undefined : buckets[at];
  return (
    <figure class="panel chart">
      <figcaption>
        <h2>{title}</h2>
        <div class="chart-legend">{legend}</div>
      </figcaption>
      <div class="plot">
        <span class="y-most" aria-hidden="true">{show(most)}</span>
        <span class="y-half" aria-hidden="true">{show(most / 2)}</span>
        <svg viewBox={`0 0 ${buckets.length} 1`} preserveAspectRatio="none" role="img" aria-label={`${title}: ${summary}`}
          onPointerMove={(event) => setAt(indexOf(event))} onPointerLeave={() => setAt(null)} onClick={(event) => onOpen(buckets[indexOf(event)]!)}>
          <line class="grid" x1="0" x2={buckets.length} y1="0.5" y2="0.5" />
          {at !== null && <rect class="hovered" x={at} y="0" width="1" height="1" />}
          {children}
        </svg>
      </div>
      <p class="x-axis" aria-hidden="true">
        {hovered === undefined
          ? <>{[0, 0.5, 1].map((part) => <span key={part}>{buckets.length > 0 && timeOf(buckets[Math.round((buckets.length - 1) * part)]!)}</span>)}</>
          : <span class="read-out"><b>{timeOf(hovered)}</b> {readOut(at!)}</span>}
      </p>
    </figure>
  );
}

export interface Series {
  name: string;
  tone: string;
  values: number[]; // one of each bucket
}

// Bars draws the values of several series upon each other.
export function Bars({ series, most }: { series: Series[]; most: number }) {
  const tops = new Array<number>(series[0]?.values.length ?? 0).fill(1);
  return (
    <>
      {series.map(({ name, tone, values }) => (
        <g key={name} class={"fill-" + tone}>
          {values.map((value, i) => {
            if (value === 0) {
              return null;
            }
            const height = value / most;
            tops[i]! -= height;
            return <rect key={i} x={i + 0.08} y={tops[i]} width="0.84" height={height} />;
          })}
        </g>
      ))}
    </>
  );
}

// Band fills the area between two lines; a value that is missing is a gap.
export function Band({ low, high, most, tone }: { low: (number | undefined)[]; high: (number | undefined)[]; most: number; tone: string }) {
  return (
    <g class={"band fill-" + tone}>
      {runsOf(high).map(([from, to]) => {
        const top = points(high, from, to, most);
        const bottom = points(low, from, to, most).reverse();
        return <polygon key={from} points={[...top, ...bottom].join(" ")} />;
      })}
    </g>
  );
}

export function Line({ values, most, tone }: { values: (number | undefined)[]; most: number; tone: string }) {
  return <g class={"line stroke-" + tone}>{runsOf(values).map(([from, to]) => <polyline key={from} points={points(values, from, to, most).join(" ")} />)}</g>;
}

// points are those of values that follow each other; each is a step as wide as its bucket.
function points(values: (number | undefined)[], from: number, to: number, most: number): string[] {
  return values.slice(from, to).flatMap((value, i) => [`${from + i},${1 - value! / most}`, `${from + i + 1},${1 - value! / most}`]);
}

// runsOf returns where values begin and end that are there without a gap.
export function runsOf(values: (number | undefined)[]): [number, number][] {
  const runs: [number, number][] = [];
  values.forEach((value, i) => {
    const last = runs.at(-1);
    if (value === undefined) {
      return;
    }
    if (last?.[1] === i) {
      last[1]++;
    } else {
      runs.push([i, i + 1]);
    }
  });
  return runs;
}

// roundMost returns a round number that is no less than any value, and at least 2. Its half is whole.
export function roundMost(values: number[]): number {
  const most = Math.max(2, ...values);
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [1, 2, 4, 6, 10].find((step) => step * power >= most)!;
}

export function Key({ tone, children, total }: { tone: string; children: ComponentChildren; total?: number }) {
  return <span class={"key legend-item " + tone}>{children} {total !== undefined && <b>{count(total)}</b>}</span>;
}
