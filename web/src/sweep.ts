// Bulk changes of the DLQ: entries one by one where some are chosen, page by page where
// all that match are. Each page is one commit of the server, so that whatever breaks off
// in between, an entry is either still there or was changed once.

import { ApiError, call, explain, get } from "./api";
import { withoutBodies } from "./logpages";
import type { DeadLetter } from "./types";

export type Kind = "runs" | "messages";

export interface Deed {
  name: string;
  doing: string;
  done: string;
  danger?: boolean;
  overrides: boolean; // whether settings may be given
  path: string;
  method: "POST" | "DELETE";
}

export const deeds: Record<Kind, Deed[]> = {
  runs: [
    { name: "Restart", doing: "Restarting", done: "restarted", overrides: true, method: "POST", path: "/v2/workflows/dlq/restart" },
    { name: "Resume", doing: "Resuming", done: "resumed", overrides: true, method: "POST", path: "/v2/workflows/dlq/resume" },
    { name: "Delete", doing: "Deleting", done: "deleted", danger: true, overrides: false, method: "DELETE", path: "/v2/workflows/dlq" },
  ],
  messages: [
    { name: "Retry", doing: "Retrying", done: "published again", overrides: true, method: "POST", path: "/v2/dlq/retry" },
    { name: "Delete", doing: "Deleting", done: "deleted", danger: true, overrides: false, method: "DELETE", path: "/v2/dlq" },
  ],
};

export interface Selection {
  kind: Kind;
  ids: string[] | null; // null: all that match
  filters: URLSearchParams;
}

// Preview is what a sweep would change.
export interface Preview {
  total: number;
  atLeast: boolean; // there may be more
  first: string[];
}

const previewed = 5000; // entries of a list that are counted

// preview tells how many entries a selection has, and which come first. The server
// counts runs; of messages it lists pages, which are counted here.
export async function preview(selection: Selection, signal: AbortSignal): Promise<Preview> {
  if (selection.ids !== null) {
    return { total: selection.ids.length, atLeast: false, first: selection.ids };
  }
  const query = filtersOf(selection);
  if (selection.kind === "runs") {
    query.set("dryRun", "true");
    const answer = await call<{ total: number; dlqIds: string[] }>("POST", "/v2/workflows/dlq/restart", { query, signal });
    return { total: answer.total, atLeast: false, first: answer.dlqIds };
  }
  query.set("order", "earliestFirst");
  query.set("trimBody", withoutBodies);
  const ids: string[] = [];
  for (;;) {
    const page = await get<{ messages: DeadLetter[]; cursor?: string }>("/v2/dlq", query, signal);
    ids.push(...page.messages.map((letter) => letter.dlqId));
    if (page.cursor === undefined || ids.length >= previewed) {
      return { total: ids.length, atLeast: page.cursor !== undefined, first: ids };
    }
    query.set("cursor", page.cursor);
  }
}

// Result is what became of one entry.
export interface Result {
  dlqId: string;
  run?: { id: string; createdAt: number };
  messageId?: string;
  error?: string;
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

// sweep changes what is selected and tells of each step. It stops between two requests
// when the signal says so.
export async function sweep(deed: Deed, selection: Selection, headers: Record<string, string>,
  progress: (results: Result[], deleted: number) => void, signal: AbortSignal): Promise<void> {
  if (selection.ids !== null) {
    for (const id of selection.ids) {
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
    progress([{ dlqId: id, error: explain(error) + (error instanceof ApiError ? "" : ", and it may have been changed") }], 0);
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
