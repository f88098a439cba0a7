// Messages as rows: what the log has of each, put together from its changes.

import { get } from "./api";
import { clock, createdAt } from "./format";
import { groupBy } from "./group";
import { LogReader, withoutBodies } from "./logpages";
import { messageOf } from "./saying";
import { toldIn } from "./why";
import type { LogEntry, LogPage, State } from "./types";

export interface MessageRow {
  id: string;
  state: State;
  status: string; // of the last attempt that has ended
  changed: number;
  took: number | undefined; // ms from acceptance to its end
  attempts: number;
  atMost: number;
  partial: boolean; // it may have more attempts
  url: string;
  via: string;
  labels: string;
  why: string; // it failed, or waits
}

const endings = new Set<State>(["DELIVERED", "FAILED", "CANCELLED"]);

// hasEnded reports whether a message in a state stays in it.
export function hasEnded(state: State): boolean {
  return endings.has(state);
}

// rowOf returns the row of a message, of whose changes the newest come first. The last error,
// with the beginning of its response, is given if there is one.
export function rowOf(changes: LogEntry[], lastError?: LogEntry): MessageRow {
  const newest = changes[0]!;
  const failed = changes.find((entry) => entry.state === "ERROR");
  return {
    id: newest.messageId,
    state: newest.state,
    status: newest.state === "DELIVERED" ? String(newest.attempt?.status ?? "2xx") : statusOf(failed),
    changed: newest.time,
    took: hasEnded(newest.state) ? newest.time - createdAt(newest.messageId) : undefined,
    attempts: changes.filter((entry) => entry.state === "ACTIVE").length,
    atMost: newest.maxRetries + 1,
    partial: !changes.some((entry) => entry.state === "CREATED"),
    url: newest.url,
    via: viaOf(newest),
    labels: newest.labels?.join(", ") ?? "",
    why: [waitOf(newest), newest.state === "DELIVERED" ? "" : reasonOf(lastError ?? failed, newest)].filter((part) => part !== "").join(": "),
  };
}

function statusOf(failed: LogEntry | undefined): string {
  return failed === undefined ? "" : String(failed.responseStatus || "none");
}

function viaOf(entry: LogEntry): string {
  const kinds: [string, string | undefined][] = [
    ["queue", entry.queueName], ["group", entry.topicName], ["schedule", entry.scheduleId], ["run", entry.workflowRunId],
  ];
  return kinds.filter(([, name]) => name !== undefined).map((kind) => kind.join(" ")).join(", ");
}

function waitOf(newest: LogEntry): string {
  const due = newest.nextDeliveryTime;
  return due === undefined || hasEnded(newest.state) ? "" : (newest.state === "CREATED" ? "due at " : "next attempt at ") + clock(due);
}

function reasonOf(failed: LogEntry | undefined, newest: LogEntry): string {
  if (failed === undefined) {
    return newest.error ?? "";
  }
  return messageOf(new TextDecoder().decode(bytesOf(failed.responseBody))) || (failed.error ?? "");
}

function bytesOf(base64 = ""): Uint8Array {
  try {
    return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}

// RowReader reads messages page by page, those that changed last first. A message comes once.
export class RowReader {
  private readonly log = new LogReader();
  private readonly seen = new Set<string>();

  // read returns the messages with a change that matches; filters on states are for the state
  // that a message is in.
  async read(query: URLSearchParams, cursor: string | undefined, signal: AbortSignal): Promise<{ rows: MessageRow[]; cursor?: string }> {
    const page = await this.log.read(query, cursor, signal);
    const found = groupBy(page.events.filter((entry) => !this.seen.has(entry.messageId)), (entry) => entry.messageId);
    found.forEach((_, id) => this.seen.add(id));
    const wanted = statesIn(query);
    const rows = await readRows([...found.keys()], signal, wanted === undefined ? found : new Map());
    return { rows: wanted === undefined ? rows : rows.filter((row) => wanted.has(row.state)), cursor: page.cursor };
  }
}

// statesIn returns the states that a query is for, undefined for all.
export function statesIn(query: URLSearchParams): Set<State> | undefined {
  const words = query.getAll("state").map((word) => word.toUpperCase());
  return words.length === 0 ? undefined : new Set(words.flatMap((word): State[] => (word === "IN_PROGRESS" ? ["ACTIVE", "RETRY", "ERROR"] : [word as State])));
}

const atOnce = 100; // messages of a request
const mostPages = 3; // of the changes of those

// readRows returns the rows of messages. Of some, changes are known: it asks for the rest of
// those whose first change is not among them.
export async function readRows(ids: string[], signal: AbortSignal, known = new Map<string, LogEntry[]>()): Promise<MessageRow[]> {
  const changes = new Map(known);
  const incomplete = ids.filter((id) => !known.get(id)?.some((entry) => entry.state === "CREATED"));
  groupBy(await readOf(incomplete, { trimBody: withoutBodies }, signal), (entry) => entry.messageId).forEach((entries, id) => changes.set(id, entries));
  const failing = ids.filter((id) => tellsError(changes.get(id)));
  const errors = groupBy(await readOf(failing, { trimBody: toldIn, state: "ERROR" }, signal), (entry) => entry.messageId);
  return ids.filter((id) => changes.has(id)).map((id) => rowOf(changes.get(id)!, errors.get(id)?.[0]));
}

function tellsError(changes: LogEntry[] | undefined): boolean {
  return changes !== undefined && changes[0]!.state !== "DELIVERED" && changes.some((entry) => entry.state === "ERROR");
}

async function readOf(ids: string[], query: Record<string, string | number>, signal: AbortSignal): Promise<LogEntry[]> {
  const entries: LogEntry[] = [];
  for (let from = 0; from < ids.length; from += atOnce) {
    let cursor: string | undefined;
    for (let page = 0; page < mostPages && (page === 0 || cursor !== undefined); page++) {
      const answer: LogPage = await get<LogPage>("/v2/logs", { ...query, messageIds: ids.slice(from, from + atOnce), count: 1000, cursor }, signal);
      entries.push(...answer.events);
      cursor = answer.cursor;
    }
  }
  return entries;
}
