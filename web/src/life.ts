// The life of a message: its newest entry, which says how it is, and its changes from the
// first on. What was read once is kept, and only what is new is asked for.

import { get } from "./api";
import { withoutBodies } from "./logpages";
import type { LogEntry, LogPage } from "./types";

export interface Life {
  newest: LogEntry; // with the whole body of the message
  changes: LogEntry[]; // oldest first, with the beginnings of bodies
  more: boolean; // there are more changes than are held
}

const held = 1000; // changes
const shown = 1200; // bytes of each body in them

// readLife reads a life, or reads on in one. It is undefined if the log has nothing of the
// message.
export async function readLife(messageId: string, before: Life | undefined, signal: AbortSignal): Promise<Life | undefined> {
  const newest = await newestOf(messageId, before, signal);
  if (newest === undefined || (before !== undefined && isSame(newest, before.newest))) {
    return before;
  }
  if (before?.more) {
    return { ...before, newest };
  }
  return { newest, ...await readOn(messageId, before?.changes ?? [], signal) };
}

async function newestOf(messageId: string, before: Life | undefined, signal: AbortSignal): Promise<LogEntry | undefined> {
  const query = { messageId, order: "latestFirst", count: 1 };
  if (before === undefined) {
    return (await get<LogPage>("/v2/logs", query, signal)).events[0];
  }
  const entry = (await get<LogPage>("/v2/logs", { ...query, trimBody: withoutBodies }, signal)).events[0];
  return entry === undefined ? undefined : { ...entry, body: before.newest.body };
}

function isSame(a: LogEntry, b: LogEntry): boolean {
  return a.time === b.time && a.state === b.state;
}

// readOn reads the changes behind those that are known. The ones that have the time of the
// last of these come again, and are passed over.
async function readOn(messageId: string, known: LogEntry[], signal: AbortSignal): Promise<Pick<Life, "changes" | "more">> {
  const last = known.at(-1)?.time;
  const changes = [...known];
  let again = known.filter((entry) => entry.time === last).length;
  let cursor: string | undefined;
  do {
    const page: LogPage = await get<LogPage>("/v2/logs", { messageId, order: "earliestFirst", fromDate: last, trimBody: shown, cursor }, signal);
    changes.push(...page.events.slice(again));
    again = Math.max(0, again - page.events.length);
    cursor = page.cursor;
  } while (cursor !== undefined && changes.length < held);
  return { changes, more: cursor !== undefined };
}

// isCut reports whether a body in a change may have been cut.
export function isCut(base64: string | undefined): boolean {
  return (base64 ?? "").length >= (shown / 3) * 4;
}

// wholeOf reads a change with its bodies as a whole.
export async function wholeOf(entry: LogEntry): Promise<LogEntry | undefined> {
  const { messageId, state, time } = entry;
  return (await get<LogPage>("/v2/logs", { messageId, state, fromDate: time, toDate: time, count: 1 })).events[0];
}

// attempts returns for each change which attempt it is the beginning of, 0 if of none.
export function attempts(changes: LogEntry[]): number[] {
  let begun = 0;
  return changes.map((entry) => (entry.state === "ACTIVE" ? ++begun : 0));
}
