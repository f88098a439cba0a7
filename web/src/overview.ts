// The numbers of the overview. What needs counting is counted over the newest entries of
// the log, a bounded number, and says so.

import { get, request } from "./api";
import { createdAt, host } from "./format";
import { groupBy } from "./group";
import { LogReader, withoutBodies } from "./logpages";
import type { FlowKey, LogEntry, LogPage, Queue } from "./types";
import { whyKey, whyQueue } from "./why";

export interface Sample {
  entries: number;
  from: number; // the time of the oldest entry, ms
  to: number;
  delivered: number;
  failed: number;
  attempts: number; // that have ended
  attemptsFailed: number;
  wholes: number[]; // ms from acceptance to delivery, ascending
  tries: number[]; // ms of attempts that succeeded, ascending
}

const pages = 4; // of the log

// sample reads the newest entries and counts.
export async function sample(signal: AbortSignal): Promise<Sample> {
  const counted: Sample = { entries: 0, from: Date.now(), to: Date.now(), delivered: 0, failed: 0, attempts: 0, attemptsFailed: 0, wholes: [], tries: [] };
  const ends = new Map<string, number>(); // of attempts that were delivered, by message
  const reader = new LogReader();
  let cursor: string | undefined;
  for (let i = 0; i < pages; i++) {
    const page = await reader.read(new URLSearchParams(), cursor, signal);
    page.events.forEach((entry) => countEntry(counted, ends, entry));
    cursor = page.cursor;
    if (cursor === undefined) {
      break;
    }
  }
  counted.wholes.sort((a, b) => a - b);
  counted.tries.sort((a, b) => a - b);
  return counted;
}

// countEntry counts one entry; they come newest first.
function countEntry(counted: Sample, ends: Map<string, number>, entry: LogEntry): void {
  counted.entries++;
  counted.from = Math.min(counted.from, entry.time);
  switch (entry.state) {
    case "DELIVERED":
      counted.delivered++;
      counted.attempts++;
      counted.wholes.push(entry.time - createdAt(entry.messageId));
      ends.set(entry.messageId, entry.time);
      break;
    case "ERROR":
      counted.attempts++;
      counted.attemptsFailed++;
      break;
    case "FAILED":
      counted.failed++;
      break;
    case "ACTIVE":
      if (ends.has(entry.messageId)) {
        counted.tries.push(ends.get(entry.messageId)! - entry.time);
        ends.delete(entry.messageId);
      }
  }
}

// percentile returns the value that a part of all are not above; they are ascending.
export function percentile(values: number[], part: number): number | undefined {
  return values[Math.min(values.length - 1, Math.ceil(values.length * part) - 1)];
}

export interface Dead {
  host: string;
  errors: number;
  last: number; // time of the newest error
  why: string;
  lastGood?: number; // time of the last delivery, if any is known
}

const asked = 12; // hosts with errors that are looked at

// deadDestinations returns the hosts whose last attempt failed and that have taken nothing
// since their newest error, of those with the most errors lately.
export async function deadDestinations(signal: AbortSignal): Promise<Dead[]> {
  const page = await get<LogPage>("/v2/logs", { state: "ERROR", count: 500, trimBody: withoutBodies }, signal);
  const byHost = groupBy(page.events, (entry) => host(entry.url));
  const worst = [...byHost].sort(([, a], [, b]) => b.length - a.length).slice(0, asked);
  const looked = await Promise.all(worst.map(async ([name, errors]): Promise<Dead> => {
    const good = await get<LogPage>("/v2/logs", { state: "DELIVERED", host: name, count: 1, trimBody: withoutBodies }, signal);
    return { host: name, errors: errors.length, last: errors[0]!.time, why: errors[0]!.error ?? "", lastGood: good.events[0]?.time };
  }));
  return looked.filter((one) => one.lastGood === undefined || one.lastGood < one.last);
}

// Held is a queue or a flow-control key that holds messages back.
export interface Held {
  kind: "queue" | "key";
  name: string;
  waiting: number;
  why: string;
}

const heldShown = 10;

// heldBack returns the queues and keys that hold messages back, those of the most first.
export async function heldBack(signal: AbortSignal): Promise<Held[]> {
  const [queues, keys] = await Promise.all([get<Queue[]>("/v2/queues", undefined, signal), get<FlowKey[]>("/v2/flowControl", undefined, signal)]);
  const all: Held[] = [
    ...queues.map((queue) => ({ kind: "queue" as const, name: queue.name, waiting: queue.lag, why: whyQueue(queue).join(" It ") })),
    ...keys.map((key) => ({ kind: "key" as const, name: key.flowControlKey, waiting: key.waitListSize, why: whyKey(key).join(" It ") })),
  ];
  return all.filter((one) => one.waiting > 0 && one.why !== "").sort((a, b) => b.waiting - a.waiting).slice(0, heldShown);
}

// gauges reads the metrics of the server, of which each is undefined that is not there.
export async function gauges(signal: AbortSignal): Promise<(name: string) => number | undefined> {
  const text = await (await request("GET", "/metrics", { signal })).text();
  return (name) => {
    const found = new RegExp(`^${name} (\\S+)$`, "m").exec(text);
    return found === null ? undefined : Number(found[1]);
  };
}
