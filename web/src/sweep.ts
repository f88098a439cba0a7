// Bulk changes of the DLQ: entries one by one where some are chosen, page by page where
// all that match are. Each page is one commit of the server, so that whatever breaks off
// in between, an entry is either still there or was changed once.

import { call, explain, get, wasRefused } from "./api";
import { withoutBodies } from "./logpages";
import type { DeadLetter, RunRef } from "./types";

export type Kind = "runs" | "messages";

// lists are the paths that the entries of a kind are listed by.
export const lists: Record<Kind, string> = { runs: "/v2/workflows/dlq", messages: "/v2/dlq" };

export interface Deed {
  name: string;
  doing: string;
  done: string;
  means?: string; // what becomes of the steps of a run
  danger?: boolean;
  overrides: boolean; // whether settings may be given
  path: string;
  method: "POST" | "DELETE";
}

export const deeds: Record<Kind, Deed[]> = {
  runs: [
    { name: "Restart", doing: "Restarting", done: "restarted", means: "A new run begins for each, with the same payload. It repeats all steps, those that were completed included.", overrides: true, method: "POST", path: "/v2/workflows/dlq/restart" },
    { name: "Resume", doing: "Resuming", done: "resumed", means: "A new run begins for each, with the results of the completed steps. It continues with the step that failed.", overrides: true, method: "POST", path: "/v2/workflows/dlq/resume" },
    { name: "Delete", doing: "Deleting", done: "deleted", danger: true, overrides: false, method: "DELETE", path: "/v2/workflows/dlq" },
  ],
  messages: [
    { name: "Retry", doing: "Retrying", done: "published again", overrides: true, method: "POST", path: "/v2/dlq/retry" },
    { name: "Delete", doing: "Deleting", done: "deleted", danger: true, overrides: false, method: "DELETE", path: "/v2/dlq" },
  ],
};

// Override is a setting that can be given instead of an entry's own.
export interface Override {
  header: string;
  label: string;
  hint: string;
}

// overrides are the settings that can be given instead of an entry's own.
export const overrides: Override[] = [
  { header: "Upstash-Retries", label: "Retries", hint: "Maximum number of retries." },
  { header: "Upstash-Retry-Delay", label: "Retry delay", hint: "In milliseconds, or an expression such as 1000 * pow(2, retried)." },
  { header: "Upstash-Delay", label: "Delay", hint: "Delay before the start, such as 30s or 10m." },
  { header: "Upstash-Flow-Control-Key", label: "Flow-control key", hint: "Limits how many are started at once." },
  { header: "Upstash-Flow-Control-Value", label: "Flow-control limits", hint: "Such as parallelism=5 or rate=10,period=1m." },
];

// Entry is an entry of the DLQ and what people know it by.
export interface Entry {
  id: string;
  url: string;
  messageId: string;
  run?: RunRef;
}

export interface Selection {
  kind: Kind;
  chosen: Entry[] | null; // null: all that match
  filters: URLSearchParams;
}

// Preview is what a sweep would change.
export interface Preview {
  total: number;
  atLeast: boolean; // there may be more
  first: Entry[];
}

const previewed = 5000; // entries of a list that are counted
const named = 200; // entries that are listed where the server counts

// preview returns how many entries a selection has, and the first ones. The server
// counts runs; of messages it lists pages, which are counted here.
export async function preview(selection: Selection, signal: AbortSignal): Promise<Preview> {
  if (selection.chosen !== null) {
    return { total: selection.chosen.length, atLeast: false, first: selection.chosen };
  }
  if (selection.kind === "runs") {
    const query = filtersOf(selection);
    query.set("dryRun", "true");
    const [answer, { entries }] = await Promise.all([
      call<{ total: number }>("POST", "/v2/workflows/dlq/restart", { query, signal }),
      list(selection, named, signal),
    ]);
    return { total: answer.total, atLeast: false, first: entries };
  }
  const { entries, more } = await list(selection, previewed, signal);
  return { total: entries.length, atLeast: more, first: entries };
}

// list returns the first entries that match, in the order in which a sweep changes them,
// and whether there are more.
async function list(selection: Selection, many: number, signal: AbortSignal): Promise<{ entries: Entry[]; more: boolean }> {
  const query = filtersOf(selection);
  query.set("order", "earliestFirst");
  query.set("trimBody", withoutBodies);
  const entries: Entry[] = [];
  for (;;) {
    const page = await get<{ messages: DeadLetter[]; cursor?: string }>(lists[selection.kind], query, signal);
    entries.push(...page.messages.map(entryOf));
    if (page.cursor === undefined || entries.length >= many) {
      return { entries, more: page.cursor !== undefined };
    }
    query.set("cursor", page.cursor);
  }
}

export function entryOf(letter: DeadLetter): Entry {
  return {
    id: letter.dlqId,
    url: letter.workflowUrl ?? letter.url,
    messageId: letter.messageId,
    run: letter.workflowRunId === undefined ? undefined : { workflowRunId: letter.workflowRunId, workflowRunCreatedAt: letter.workflowCreatedAt! },
  };
}

// Result is what became of one entry.
export interface Result {
  dlqId: string;
  run?: { id: string; createdAt: number };
  messageId?: string;
  error?: string;
  unsure?: boolean; // whether it was changed all the same
}

interface Answer {
  cursor?: string;
  workflowRuns?: { workflowRunId: string; workflowCreatedAt: number; dlqId: string }[];
  failures?: { dlqId: string; error: string }[];
  responses?: { messageId: string; dlqId: string }[];
  deleted?: number;
  workflowRunId?: string; // of a single entry, as are the next two
  workflowCreatedAt?: number;
  messageId?: string;
}

// sweep changes what is selected and reports each step. It stops between two requests
// when the signal says so.
export async function sweep(deed: Deed, selection: Selection, headers: Record<string, string>,
  progress: (results: Result[], deleted: number) => void, signal: AbortSignal): Promise<void> {
  if (selection.chosen !== null) {
    for (const { id } of selection.chosen) {
      if (signal.aborted) {
        return;
      }
      await changeOne(deed, id, headers, progress);
    }
    return;
  }
  const query = filtersOf(selection);
  while (!signal.aborted) {
    const answer = await call<Answer>(deed.method, deed.path, { query, headers });
    progress(resultsOf(answer), answer.deleted ?? 0);
    if (!answer.cursor) {
      return;
    }
    query.set("cursor", answer.cursor);
  }
}

async function changeOne(deed: Deed, id: string, headers: Record<string, string>,
  progress: (results: Result[], deleted: number) => void): Promise<void> {
  try {
    const answer = await call<Answer | null>(deed.method, deed.path + "/" + encodeURIComponent(id), { headers });
    if (deed.method === "DELETE") {
      progress([], 1);
    } else if (answer?.workflowRunId !== undefined) {
      progress([{ dlqId: id, run: { id: answer.workflowRunId, createdAt: answer.workflowCreatedAt! } }], 0);
    } else {
      progress([{ dlqId: id, messageId: answer?.messageId }], 0);
    }
  } catch (error) {
    const unsure = !wasRefused(error);
    progress([{ dlqId: id, error: explain(error) + (unsure ? ", and the entry may have been changed" : ""), unsure }], 0);
  }
}

function resultsOf(answer: Answer): Result[] {
  return [
    ...(answer.workflowRuns ?? []).map((run) => ({ dlqId: run.dlqId, run: { id: run.workflowRunId, createdAt: run.workflowCreatedAt } })),
    ...(answer.responses ?? []).map(({ messageId, dlqId }) => ({ messageId, dlqId })),
    ...(answer.failures ?? []),
  ];
}

function filtersOf(selection: Selection): URLSearchParams {
  const query = new URLSearchParams(selection.filters);
  query.delete("order");
  return query;
}
