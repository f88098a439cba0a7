// Pages of the log for who looks at what happened, and at no bodies.

import { get } from "./api";
import type { LogPage } from "./types";

const first = 200; // entries: enough to fill a screen at once
const most = 1000; // entries of a page

// withoutBodies is the trimBody that leaves out the bodies of messages and answers.
export const withoutBodies = "-1";

// LogReader reads a log page by page.
export class LogReader {
  private count = first;

  async read(query: URLSearchParams, cursor: string | undefined, signal: AbortSignal): Promise<LogPage> {
    const asked = new URLSearchParams(query);
    asked.set("count", String(this.count));
    asked.set("trimBody", withoutBodies);
    if (cursor !== undefined) {
      asked.set("cursor", cursor);
    }
    this.count = most;
    return get<LogPage>("/v2/logs", asked, signal);
  }
}
