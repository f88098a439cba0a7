// Pages of the log of a bounded size: entries carry their bodies, which may be large.

import { get } from "./api";
import type { LogEntry, LogPage } from "./types";

const first = 200; // entries: enough to fill a screen at once
const most = 1000; // entries of a page
const pageBytes = 2_000_000; // about as much as a later page may have
const fixedBytes = 800; // of an entry without its bodies

// LogReader reads a log page by page, each about as large as it may be.
export class LogReader {
  private count = first;

  async read(query: URLSearchParams, cursor: string | undefined, signal: AbortSignal): Promise<LogPage> {
    const asked = new URLSearchParams(query);
    asked.set("count", String(this.count));
    if (cursor !== undefined) {
      asked.set("cursor", cursor);
    }
    const page = await get<LogPage>("/v2/logs", asked, signal);
    this.count = nextCount(page.events);
    return page;
  }
}

// nextCount returns how many entries to ask for next, by how large these were.
export function nextCount(entries: LogEntry[]): number {
  const bytes = entries.reduce((sum, entry) => sum + fixedBytes + entry.body.length + (entry.responseBody?.length ?? 0), 0);
  return Math.max(10, Math.min(most, Math.floor((pageBytes * entries.length) / Math.max(1, bytes))));
}
