// The numbers of the overview: counts over time, and what does not move now.

import { get, request } from "./api";
import { host } from "./format";
import { groupBy } from "./group";
import { withoutBodies } from "./logpages";
import type { FlowKey, LogPage, Queue, State } from "./types";
import { whyKey, whyQueue } from "./why";

export interface Summary {
  states: Partial<Record<State, number>>; // entries of the log
  statuses: Record<string, number>; // attempts by class of the answer: 2xx, none
  latency?: { count: number; p50: number; p90: number; p99: number }; // ms, of attempts
}

export interface Destination extends Summary {
  host?: string; // without one: all others
  path?: string;
}

export interface Stats {
  bucket: "hour" | "day";
  fromDate: number;
  toDate: number;
  total: Summary;
  buckets: (Summary & { time: number })[]; // one for each hour or day, oldest first
  hosts: Destination[]; // those with the most errors first
  paths: Destination[];
}

export interface Range {
  name: string;
  bucket: "hour" | "day";
  ms: number;
}

const hour = 3_600_000;

export const ranges: Record<string, Range> = {
  "6h": { name: "6 hours", bucket: "hour", ms: 6 * hour },
  "24h": { name: "24 hours", bucket: "hour", ms: 24 * hour },
  "7d": { name: "7 days", bucket: "hour", ms: 7 * 24 * hour },
  "30d": { name: "30 days", bucket: "day", ms: 30 * 24 * hour },
};

export const usual = "24h"; // the range that is shown unless another is chosen

export function rangeOf(name: string | null): Range {
  return ranges[name ?? usual] ?? ranges[usual]!;
}

// readStats reads the counts of a range that ends now: as many buckets as it is long.
export function readStats({ bucket, ms }: Range, signal: AbortSignal): Promise<Stats> {
  const width = bucket === "hour" ? hour : 24 * hour;
  return get<Stats>("/v2/logs/stats", { bucket, fromDate: Date.now() - ms + width, count: 20 }, signal);
}

export function sum(counts: Record<string, number | undefined>): number {
  return Object.values(counts).reduce<number>((total, n) => total + (n ?? 0), 0);
}

// failing returns the destinations of which an attempt failed, and of how many of all.
export function failing(destinations: Destination[]): { of: Destination; failed: number; attempts: number }[] {
  return destinations.filter((one) => one.host !== undefined && (one.states.ERROR ?? 0) > 0)
    .map((of) => ({ of, failed: sum(of.statuses) - (of.statuses["2xx"] ?? 0), attempts: sum(of.statuses) }));
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

// Metrics reads the metrics of the server, of which each is undefined that is not there.
export interface Metrics {
  gauge: (name: string) => number | undefined;
  percentile: (histogram: string, part: number) => number | undefined;
}

export async function metrics(signal: AbortSignal): Promise<Metrics> {
  return readMetrics(await (await request("GET", "/metrics", { signal })).text());
}

export function readMetrics(text: string): Metrics {
  const gauge = (name: string) => {
    const found = new RegExp(`^${name} (\\S+)$`, "m").exec(text);
    return found === null ? undefined : Number(found[1]);
  };
  // The percentile of a histogram is the upper end of the bucket that it is in.
  const percentile = (name: string, part: number) => {
    const buckets = [...text.matchAll(new RegExp(`^${name}_bucket\\{le="([^"]+)"\\} (\\S+)$`, "gm"))].map((found) => [Number(found[1]!.replace("+Inf", "Infinity")), Number(found[2])] as const);
    const all = buckets.at(-1)?.[1] ?? 0;
    const end = all === 0 ? undefined : buckets.find(([, below]) => below >= all * part)?.[0];
    return end === Infinity ? undefined : end;
  };
  return { gauge, percentile };
}
