// How the server is doing, and the way to whatever does not move.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import { get } from "../api";
import { useAsked, useRepeated } from "../feed";
import { away, bytes, count, moment, plural, span } from "../format";
import { deadDestinations, gauges, heldBack, percentile, sample, type Dead, type Held, type Sample } from "../overview";
import { go, href } from "../router";
import type { Usage } from "../types";
import { Fault, Loading, Tag } from "../ui/widgets";
import { Steps } from "./start";

interface Known {
  sample: Sample;
  usage: Usage;
  slots: { parallelismMax: number; parallelismCount: number };
  overdue: number | undefined; // seconds
  paused: number; // likewise, of what a pause holds back
  held: Held[] | undefined; // asked for when it is late
  disk: number | undefined; // bytes
  dead: Dead[];
}

const late = 60; // seconds that a message may be overdue

async function ask(signal: AbortSignal): Promise<Known> {
  const [newest, usage, slots, gauge, dead] = await Promise.all([
    sample(signal),
    get<Usage>("/v2/usage", undefined, signal),
    get<Known["slots"]>("/v2/globalParallelism", undefined, signal),
    gauges(signal),
    deadDestinations(signal),
  ]);
  const overdue = gauge("posthaste_due_backlog_age_seconds");
  const paused = gauge("posthaste_paused_backlog_age_seconds") ?? 0;
  const held = Math.max(overdue ?? 0, paused) > late ? await heldBack(signal) : undefined;
  return { sample: newest, usage, slots, overdue, paused, held, disk: gauge("posthaste_store_bytes"), dead };
}

const pause = 10_000; // ms between two readings

export function Overview() {
  const { data, error, again } = useAsked("overview", ask);
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
        <Find />
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
        <p class="muted">Nothing has been published yet. Three steps to the first delivery:</p>
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
  const { sample: newest, usage } = of;
  const window = `the newest ${plural(newest.entries, "entry", "entries")}, since ${moment(newest.from)}`;
  const ended = newest.delivered + newest.failed;
  const seconds = Math.max(1, (newest.to - newest.from) / 1000);
  const letters = usage.deadLetters.entries + usage.failedRuns.entries;
  return (
    <>
      <div class="cards">
        <Card name="Delivered" value={(newest.delivered / seconds).toFixed(newest.delivered / seconds < 10 ? 2 : 0) + " /s"} note={`${plural(newest.delivered, "message")} in ${window}`} />
        <Card name="Success" value={ended === 0 ? "–" : share(newest.delivered, ended)} tone={newest.failed > 0 ? "amber" : "green"}
          note={<>{plural(newest.failed, "message")} failed permanently; {share(newest.attemptsFailed, newest.attempts)} of {plural(newest.attempts, "attempt")} failed</>} />
        <Card name="Oldest due message" value={of.overdue === undefined ? "–" : of.overdue === 0 ? "none" : span(of.overdue * 1000)} tone={(of.overdue ?? 0) > late ? "red" : "green"}
          note={<>how long the most overdue message has been waiting{of.paused > 0 && <>; {span(of.paused * 1000)} behind a pause</>}{of.held !== undefined && <>: <a href="#held">why</a></>}</>} />
        <Card name="Attempts in flight" value={count(of.slots.parallelismCount)} note={`of at most ${count(of.slots.parallelismMax)}`} />
        <Card name="Dead letters" value={count(letters)} tone={letters > 0 ? "amber" : "green"}
          note={<><a href={href("/dlq/runs")}>{plural(usage.failedRuns.entries, "run")}</a>, <a href={href("/dlq/messages")}>{plural(usage.deadLetters.entries, "message")}</a></>} />
        <Card name="Disk" value={of.disk === undefined ? "–" : bytes(of.disk)} note={`the log goes back to ${usage.log.oldest === undefined ? "now" : moment(usage.log.oldest)}`} />
      </div>
      <div class="columns even">
        {of.held !== undefined && (
          <section aria-labelledby="held">
            <h2 id="held">What blocks messages</h2>
            {of.held.length === 0 ? <p class="muted">No queue or flow-control key of yours. Due messages wait for their destinations, or belong to other users.</p> : <HeldList of={of.held} />}
          </section>
        )}
        <section aria-labelledby="latency">
          <h2 id="latency">Delivery latency <small>in {window}</small></h2>
          <Latency of={newest} />
        </section>
        <section aria-labelledby="dead">
          <h2 id="dead">Failing destinations</h2>
          {of.dead.length === 0 ? <p class="muted">None. Every destination tried recently has accepted a message since.</p> : <DeadList of={of.dead} />}
        </section>
      </div>
    </>
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

function Latency({ of }: { of: Sample }) {
  const parts: [string, number][] = [["p50", 0.5], ["p90", 0.9], ["p99", 0.99], ["p99.9", 0.999]];
  const show = (values: number[], part: number) => {
    const value = percentile(values, part);
    return value === undefined ? "–" : span(value);
  };
  return (
    <table class="plain">
      <thead><tr><th>Percentile</th><th>Acceptance to delivery</th><th>Successful attempt</th></tr></thead>
      <tbody>
        {parts.map(([name, part]) => (
          <tr key={name}><th scope="row">{name}</th><td class="number">{show(of.wholes, part)}</td><td class="number">{show(of.tries, part)}</td></tr>
        ))}
      </tbody>
    </table>
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
            <td class="number"><Tag tone="red">{count(one.errors)}</Tag></td>
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
