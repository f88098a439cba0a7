// How the server is doing, over time and now, and the way to whatever does not move.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import { get } from "../api";
import { useAsked, useRepeated } from "../feed";
import { away, bytes, count, hourOf, plural, span } from "../format";
import { deadDestinations, failing, heldBack, metrics, ranges, rangeOf, readStats, sum, usual, type Dead, type Held, type Metrics, type Range, type Stats } from "../overview";
import { go, href, setParams, usePlace } from "../router";
import type { Usage } from "../types";
import { Band, Bars, Chart, Key, Line, roundMost, type Bucket } from "../ui/chart";
import { Fault, Loading, Tag } from "../ui/widgets";
import { Steps } from "./start";

interface Known {
  stats: Stats;
  usage: Usage;
  slots: { parallelismMax: number; parallelismCount: number };
  metrics: Metrics;
  overdue: number | undefined; // seconds
  paused: number; // likewise, of what a pause holds back
  held: Held[] | undefined; // asked for when it is late
  dead: Dead[];
}

const late = 60; // seconds that a message may be overdue

async function ask(range: Range, signal: AbortSignal): Promise<Known> {
  const [stats, usage, slots, measured, dead] = await Promise.all([
    readStats(range, signal),
    get<Usage>("/v2/usage", undefined, signal),
    get<Known["slots"]>("/v2/globalParallelism", undefined, signal),
    metrics(signal),
    deadDestinations(signal),
  ]);
  const overdue = measured.gauge("posthaste_due_backlog_age_seconds");
  const paused = measured.gauge("posthaste_paused_backlog_age_seconds") ?? 0;
  const held = Math.max(overdue ?? 0, paused) > late ? await heldBack(signal) : undefined;
  return { stats, usage, slots, metrics: measured, overdue, paused, held, dead };
}

const pause = 10_000; // ms between two readings

export function Overview() {
  const { params } = usePlace();
  const chosen = params.get("range");
  const range = rangeOf(chosen);
  const { data, error, again } = useAsked("overview " + chosen, (signal) => ask(range, signal), true);
  const isNew = useRef<boolean>(undefined); // the server had no message when the page was opened
  const [entered, setEntered] = useState(false);
  useRepeated(again, pause);
  if (data !== undefined) {
    isNew.current ??= data.usage.log.entries === 0 && data.usage.runs.entries === 0;
  }
  if (isNew.current && !entered) {
    return <Welcome onEnter={() => setEntered(true)} />;
  }
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar">
        <h1 id="title">Overview</h1>
        <div class="tabs" role="group" aria-label="Range">
          {Object.entries(ranges).map(([key, one]) => (
            <button key={key} aria-pressed={one === range} onClick={() => setParams({ range: key === usual ? undefined : key })}>{one.name}</button>
          ))}
        </div>
        <div class="actions"><Find /></div>
      </header>
      {error !== "" && <Fault again={() => void again()}>{error}</Fault>}
      {data === undefined ? error === "" && <Loading /> : <Numbers of={data} />}
    </section>
  );
}

// Welcome is the overview of a server that has nothing to show yet.
function Welcome({ onEnter }: { onEnter: () => void }) {
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar">
        <h1 id="title">Welcome to Posthaste</h1>
        <p class="muted">Three steps to the first delivery:</p>
        <div class="actions"><button onClick={onEnter}>Show the overview</button></div>
      </header>
      <Steps />
    </section>
  );
}

// Find answers "why is this not moving" for any message or run.
function Find() {
  const [id, setId] = useState("");
  const find = () => {
    const text = id.trim();
    if (text.startsWith("msg_")) {
      go("/messages", new URLSearchParams({ messageId: text, open: text }));
    } else if (text !== "") {
      go("/runs/" + encodeURIComponent(text));
    }
  };
  return (
    <form class="new-filter" onSubmit={(event) => { event.preventDefault(); find(); }}>
      <input class="filter-text" type="search" aria-label="ID of a message or a run" placeholder="msg_… or wfr_…" value={id} onInput={(event) => setId(event.currentTarget.value)} />
      <button>Why is this not moving?</button>
    </form>
  );
}

function Numbers({ of }: { of: Known }) {
  const { stats, usage } = of;
  const { states, statuses, latency } = stats.total;
  const [delivered, failed] = [states.DELIVERED ?? 0, states.FAILED ?? 0];
  const attempts = sum(statuses);
  const letters = usage.deadLetters.entries + usage.failedRuns.entries;
  const disk = of.metrics.gauge("posthaste_store_bytes");
  return (
    <>
      <div class="cards">
        <Card name="Delivered" value={count(delivered)} note={<>{plural(states.CREATED ?? 0, "message")} accepted</>} />
        <Card name="Success" value={delivered + failed === 0 ? "–" : share(delivered, delivered + failed)} tone={delivered < 0.95 * (delivered + failed) ? "red" : undefined}
          note={<>{plural(failed, "message")} failed for good; {share(attempts - (statuses["2xx"] ?? 0), attempts)} of {plural(attempts, "attempt")} failed</>} />
        <Card name="Attempt, median" value={latency === undefined ? "–" : span(latency.p50)} note={latency === undefined ? "none in this period" : <>90 % within {span(latency.p90)}, 99 % within {span(latency.p99)}</>} />
        <Card name="Oldest due message" value={of.overdue === undefined ? "–" : of.overdue === 0 ? "none" : span(of.overdue * 1000)} tone={(of.overdue ?? 0) > late ? "red" : undefined}
          note={<>how long the most overdue message has been waiting{of.paused > 0 && <>; the oldest paused one for {span(of.paused * 1000)}</>}{of.held !== undefined && <>: <a href="#held">why</a></>}</>} />
        <Card name="Attempts in flight" value={count(of.slots.parallelismCount)} note={`of at most ${count(of.slots.parallelismMax)}`} />
        <Card name="Dead letters" value={count(letters)} tone={letters > 0 ? "red" : undefined}
          note={<><a href={href("/dlq/runs")}>{plural(usage.failedRuns.entries, "run")}</a>, <a href={href("/dlq/messages")}>{plural(usage.deadLetters.entries, "message")}</a>{disk !== undefined && <>; all data: {bytes(disk)}</>}</>} />
      </div>
      <Charts stats={stats} metrics={of.metrics} />
      <div class="columns even">
        {of.held !== undefined && (
          <section aria-labelledby="held">
            <h2 id="held">What blocks messages</h2>
            {of.held.length === 0 ? <p class="muted">None of your queues or flow-control keys. Due messages wait for their destinations, or belong to other users.</p> : <HeldList of={of.held} />}
          </section>
        )}
        <section class="whole" aria-labelledby="failing">
          <h2 id="failing">Failing destinations</h2>
          <Failing stats={stats} />
        </section>
        <section class="whole" aria-labelledby="dead">
          <h2 id="dead">Hosts that fail now</h2>
          {of.dead.length === 0 ? <p class="muted">None. Every host tried recently has accepted a message since.</p> : <DeadList of={of.dead} />}
        </section>
      </div>
    </>
  );
}

function Charts({ stats, metrics: measured }: { stats: Stats; metrics: Metrics }) {
  const width = stats.bucket === "hour" ? 3_600_000 : 86_400_000;
  const buckets = stats.buckets.map(({ time }): Bucket => ({ time, until: time + width - 1 }));
  const of = (state: "DELIVERED" | "RETRY" | "FAILED") => stats.buckets.map(({ states }) => states[state] ?? 0);
  const series = [
    { name: "delivered", tone: "green", values: of("DELIVERED") },
    { name: "retried", tone: "amber", values: of("RETRY") },
    { name: "failed", tone: "red", values: of("FAILED") },
  ];
  const totals = series.map(({ values }) => values.reduce((all, n) => all + n, 0));
  const most = roundMost(buckets.map((_, i) => series.reduce((all, one) => all + one.values[i]!, 0)));
  const most99 = roundMost(stats.buckets.map((one) => one.latency?.p99 ?? 0));
  const mostFailed = roundMost(of("FAILED"));
  const percentile = (part: "p50" | "p90" | "p99") => stats.buckets.map(({ latency }) => latency?.[part]);
  const timeOf = ({ time }: Bucket) => hourOf(time, stats.bucket === "day");
  const between = ({ time, until }: Bucket) => ({ fromDate: String(time), toDate: String(until) });
  const frame = { buckets, timeOf };
  const due = (part: number) => measured.percentile("posthaste_delivery_seconds", part);
  return (
    <div class="charts">
      <Chart {...frame} title="Deliveries" most={most} show={count} summary={series.map((one, i) => `${count(totals[i]!)} ${one.name}`).join(", ")}
        legend={series.map((one, i) => <Key key={one.name} tone={one.tone} total={totals[i]!}>{one.name}</Key>)}
        readOut={(i) => series.map((one) => `${count(one.values[i]!)} ${one.name}`).join(", ")}
        onOpen={(bucket) => go("/messages", new URLSearchParams(between(bucket)))}>
        <Bars series={series} most={most} />
      </Chart>
      <Chart {...frame} title="Time of an attempt" most={most99} show={span} summary={stats.total.latency === undefined ? "no attempts" : `median ${span(stats.total.latency.p50)}, 99 % within ${span(stats.total.latency.p99)}`}
        legend={<><Key tone="blue">median</Key><Key tone="sky">to 90 %</Key><Key tone="pale">to 99 %</Key></>}
        readOut={(i) => {
          const latency = stats.buckets[i]!.latency;
          return latency === undefined ? "no attempts" : `median ${span(latency.p50)}, 90 % ${span(latency.p90)}, 99 % ${span(latency.p99)}`;
        }}
        onOpen={(bucket) => go("/messages", new URLSearchParams(between(bucket)))}>
        <Band low={percentile("p90")} high={percentile("p99")} most={most99} tone="pale" />
        <Band low={percentile("p50")} high={percentile("p90")} most={most99} tone="sky" />
        <Line values={percentile("p50")} most={most99} tone="blue" />
      </Chart>
      <Chart {...frame} title="Into the dead letter queue" most={mostFailed} show={count} summary={`${count(totals[2]!)} messages and steps`}
        legend={<Key tone="red" total={totals[2]!}>failed</Key>}
        readOut={(i) => plural(series[2]!.values[i]!, "failure")}
        onOpen={(bucket) => go("/dlq/messages", new URLSearchParams(between(bucket)))}>
        <Bars series={[series[2]!]} most={mostFailed} />
      </Chart>
      {due(0.5) !== undefined && (
        <p class="muted">From the time a message is due to its delivery, retries included: half within {span(due(0.5)! * 1000)}{due(0.99) !== undefined && <>, 99 % within {span(due(0.99)! * 1000)}</>}. This is of all users since the server started.</p>
      )}
    </div>
  );
}

const shownFailing = 10;

function Failing({ stats }: { stats: Stats }) {
  const all = failing(stats.paths).slice(0, shownFailing);
  if (all.length === 0) {
    return <p class="muted">None: no attempt failed in this period.</p>;
  }
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Failing destinations">
      <table class="plain">
        <thead><tr><th>Destination</th><th>Failed</th><th>Of attempts</th><th>Answers</th><th>Median</th><th>99 %</th></tr></thead>
        <tbody>
          {all.map(({ of, failed, attempts }) => (
            <tr key={(of.host ?? "") + of.path}>
              <td data-column="Destination" class="breaks"><a href={href("/messages", { host: of.host!, ...(of.path === undefined ? {} : { path: of.path }) })}>{of.host}{of.path ?? ", other paths"}</a></td>
              <td data-column="Failed" class="number">{count(failed)}</td>
              <td data-column="Of attempts" class="number"><span class="share"><span style={{ width: `${(100 * failed) / Math.max(1, attempts)}%` }} /></span> {share(failed, attempts)}</td>
              <td data-column="Answers">{Object.entries(of.statuses).sort().map(([status, n]) => <span key={status}><Tag tone={status === "2xx" ? "green" : "orange"}>{status}</Tag> <span class="number">{count(n)}</span> </span>)}</td>
              <td data-column="Median" class="number">{of.latency === undefined ? "" : span(of.latency.p50)}</td>
              <td data-column="99 %" class="number">{of.latency === undefined ? "" : span(of.latency.p99)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function share(part: number, of: number): string {
  return of === 0 ? "none" : ((100 * part) / of).toFixed(part === 0 || part === of ? 0 : 1) + " %";
}

function Card({ name, value, note, tone }: { name: string; value: string; note: ComponentChildren; tone?: string }) {
  return (
    <div class={"card " + (tone ?? "")}>
      <h2>{name}</h2>
      <p class="value">{value}</p>
      <p class="muted">{note}</p>
    </div>
  );
}

function DeadList({ of }: { of: Dead[] }) {
  return (
    <table class="plain">
      <thead><tr><th>Host</th><th>Errors</th><th>Last delivery</th><th>Why</th></tr></thead>
      <tbody>
        {of.map((one) => (
          <tr key={one.host}>
            <td><a href={href("/messages", { host: one.host })}>{one.host}</a></td>
            <td class="number"><Tag tone="orange">{count(one.errors)}</Tag></td>
            <td>{one.lastGood === undefined ? "none found" : away(one.lastGood)}</td>
            <td class="breaks">{one.why}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function HeldList({ of }: { of: Held[] }) {
  return (
    <table class="plain">
      <thead><tr><th>Queue or key</th><th>Waiting</th><th>Why</th></tr></thead>
      <tbody>
        {of.map((one) => (
          <tr key={one.kind + one.name}>
            <td class="breaks"><a href={href(one.kind === "queue" ? "/queues" : "/flow")}>{one.kind} {one.name}</a></td>
            <td class="number">{count(one.waiting)}</td>
            <td class="breaks">{one.why}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
