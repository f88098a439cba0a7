// Dead letters by what they failed of: the status of the last response, or the error if none
// came, and the host.

import { get } from "./api";
import { host } from "./format";
import { groupBy } from "./group";
import { messageOf } from "./saying";
import { entryOf, lists, type Entry, type Kind } from "./sweep";
import type { DeadLetter } from "./types";
import { toldIn } from "./why";

export interface Cause {
  key: string;
  status: number; // 0 if there was no response
  error: string;
  host: string;
  entries: Entry[];
  first: number; // times of failures
  last: number;
  says: string; // most of the responses
}

// causeOf names what an entry failed of.
export function causeOf(letter: Pick<DeadLetter, "responseStatus" | "error" | "url" | "workflowUrl">): string {
  return `${letter.responseStatus || classOf(letter.error)} from ${host(letter.workflowUrl ?? letter.url)}`;
}

// classOf returns what an error is, without the addresses and numbers of one case.
function classOf(error = ""): string {
  const known = ["connection refused", "no such host", "timeout", "deadline exceeded", "certificate", "connection reset", "EOF"];
  return known.find((word) => error.toLowerCase().includes(word.toLowerCase())) ?? (error.split(":").at(-1)!.trim().slice(0, 80) || "no response");
}

const most = 5000; // entries that are grouped

export interface Causes {
  causes: Cause[]; // those with the most entries first
  read: number;
  more: boolean;
}

// readCauses groups the newest entries that match.
export async function readCauses(kind: Kind, filters: URLSearchParams, signal: AbortSignal): Promise<Causes> {
  const query = new URLSearchParams(filters);
  query.delete("order");
  query.set("count", "100");
  query.set("trimBody", String(toldIn));
  const letters: DeadLetter[] = [];
  let more = true;
  while (more && letters.length < most) {
    const page = await get<{ messages: DeadLetter[]; cursor?: string }>(lists[kind], query, signal);
    letters.push(...page.messages);
    more = page.cursor !== undefined;
    query.set("cursor", page.cursor ?? "");
  }
  return { causes: group(letters), read: letters.length, more };
}

export function group(letters: DeadLetter[]): Cause[] {
  return [...groupBy(letters, causeOf)].map(([key, same]): Cause => ({
    key,
    status: same[0]!.responseStatus,
    error: classOf(same[0]!.error).replace(/^\d{3} /, ""),
    host: host(same[0]!.workflowUrl ?? same[0]!.url),
    entries: same.map(entryOf),
    first: Math.min(...same.map((letter) => letter.failedAt)),
    last: Math.max(...same.map((letter) => letter.failedAt)),
    says: commonest(same.map((letter) => messageOf(letter.responseBody ?? "") || (letter.error ?? ""))),
  })).sort((a, b) => b.entries.length - a.entries.length);
}

function commonest(texts: string[]): string {
  return [...groupBy(texts, (text) => text)].sort(([, a], [, b]) => b.length - a.length)[0]?.[0] ?? "";
}
