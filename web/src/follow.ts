// Following the log. An EventSource cannot send a token in a header, so the stream of
// server-sent events is read from a fetch.

import { ApiError, explain, request, type Query } from "./api";

export interface Follower<T> {
  entries: (entries: T[]) => void;
  state: (connected: boolean) => void;
  refused: (sentence: string) => void; // for good
}

const pause = 2000; // ms before a lost connection is made again

// follow reads entries as they are written until the signal aborts it. After a lost
// connection it continues where it was: no entry is missed and none comes twice. What the
// server refuses for good is asked once.
export async function follow<T>(path: string, query: Query, to: Follower<T>, signal: AbortSignal): Promise<void> {
  let last = "";
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream" };
      if (last !== "") {
        headers["Last-Event-ID"] = last;
      }
      const response = await request("GET", path, { query, headers, signal });
      if (response.status === 204 || response.body === null) {
        return; // nothing is to come any more
      }
      to.state(true);
      await readEvents<T>(response.body, (id, entries) => {
        last = id || last;
        if (entries.length > 0) {
          to.entries(entries);
        }
      });
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      if (isRefusal(error)) {
        to.refused(explain(error));
        return;
      }
      console.warn("the log stream was interrupted", error);
    }
    to.state(false);
    await new Promise((resume) => setTimeout(resume, pause));
  }
}

// isRefusal reports whether the same question would be answered with the same error.
function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 408 && error.status !== 429;
}

// readEvents reads a stream of events to its end, piece by piece.
async function readEvents<T>(stream: ReadableStream<Uint8Array>, take: (id: string, entries: T[]) => void): Promise<void> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    rest += decoder.decode(value, { stream: true });
    const end = rest.lastIndexOf("\n\n");
    if (end < 0) {
      continue;
    }
    let id = "";
    const entries: T[] = [];
    for (const line of rest.slice(0, end).split("\n")) {
      if (line.startsWith("id: ")) {
        id = line.slice(4);
      } else if (line.startsWith("data: ")) {
        entries.push(JSON.parse(line.slice(6)) as T);
      }
    }
    rest = rest.slice(end + 2);
    take(id, entries);
  }
}
