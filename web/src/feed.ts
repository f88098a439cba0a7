// A list that is read page by page, as far as somebody looks.

import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";

import { explain, isAbort } from "./api";

export interface Page<T> {
  rows: T[];
  cursor?: string;
}

export type Fetch<T> = (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>;

// most is how many rows a list holds, whatever there is: memory is bounded.
export const most = 100_000;

const mostEmpty = 20; // pages without a row that are read in one go

export class Feed<T> {
  rows: T[] = [];
  busy = false;
  ended = false; // there are no more
  resting = false; // many pages had nothing, and it waits until somebody asks for more
  error = "";

  private cursor: string | undefined;
  private readonly stopped = new AbortController();

  constructor(private readonly fetch: Fetch<T>, private readonly changed: () => void) {}

  // full says that there may be more, but not in this list.
  get full(): boolean {
    return !this.ended && this.rows.length >= most;
  }

  // more reads the next page that has anything, unless one is being read.
  async more(): Promise<void> {
    if (this.busy || this.ended || this.full || this.stopped.signal.aborted) {
      return;
    }
    this.busy = true;
    this.resting = false;
    this.error = "";
    this.changed();
    try {
      await this.readPage();
    } catch (error) {
      if (isAbort(error)) {
        return;
      }
      this.error = explain(error);
    }
    this.busy = false;
    this.changed();
  }

  // upTo reads on until there are that many rows, or no more.
  async upTo(many: number): Promise<void> {
    while (this.rows.length < many && !this.ended && !this.full && !this.resting && this.error === "" && !this.stopped.signal.aborted) {
      if (this.busy) {
        await new Promise((resume) => setTimeout(resume, 50));
      }
      await this.more();
    }
  }

  private async readPage(): Promise<void> {
    for (let pages = 0; pages < mostEmpty; pages++) {
      const page = await this.fetch(this.cursor, this.stopped.signal);
      this.cursor = page.cursor;
      this.ended = page.cursor === undefined;
      for (const row of page.rows) {
        this.rows.push(row);
      }
      if (page.rows.length > 0 || this.ended) {
        return;
      }
    }
    this.resting = true;
  }

  // replace puts other rows in place of all.
  replace(rows: T[]): void {
    this.rows = rows;
    this.changed();
  }

  // prepend puts rows before all others; those that are one too many go at the end.
  prepend(rows: T[]): void {
    this.rows = rows.concat(this.rows);
    if (this.rows.length > most) {
      this.rows.length = most;
    }
    this.changed();
  }

  // remove takes rows out.
  remove(which: (row: T) => boolean): void {
    this.rows = this.rows.filter((row) => !which(row));
    this.changed();
  }

  stop(): void {
    this.stopped.abort();
  }
}

// useFeed returns the list of what a key stands for, and begins to read it. Another key
// is another list.
export function useFeed<T>(key: string, fetch: Fetch<T>): Feed<T> {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const feed = useRef<{ key: string; list: Feed<T> } | null>(null);
  if (feed.current?.key !== key) {
    feed.current?.list.stop();
    feed.current = { key, list: new Feed(fetch, () => redraw(0)) };
  }
  const list = feed.current.list;
  useLayoutEffect(() => { // it asks before the view is drawn, which does not wait for the answer
    void list.more();
    return () => list.stop();
  }, [list]);
  return list;
}

// useAsked asks once for each key, and again on request. What another key had is shown until
// there is an answer, if keep says so.
export function useAsked<T>(key: string, ask: (signal: AbortSignal) => Promise<T>, keep = false): Asked<T> {
  const [, redraw] = useReducer((n: number) => n + 1, 0);
  const state = useRef<{ key: string; data?: T; error: string; abort?: AbortController }>({ key: "", error: "" });
  const run = async () => {
    state.current.abort?.abort();
    const abort = new AbortController();
    state.current.abort = abort;
    try {
      const data = await ask(abort.signal);
      if (!abort.signal.aborted) {
        Object.assign(state.current, { data, error: "" });
      }
    } catch (error) {
      if (!abort.signal.aborted) {
        state.current.error = explain(error);
      }
    }
    redraw(0);
  };
  if (state.current.key !== key) {
    state.current.abort?.abort();
    state.current = { key, error: "", data: keep ? state.current.data : undefined };
  }
  useLayoutEffect(() => { // before the view is drawn
    void run();
    return () => state.current.abort?.abort();
  }, [key]);
  return { data: state.current.data, error: state.current.error, again: run };
}

// useRepeated asks again while something is in progress and the page is looked at: each time a
// pause after the last answer, so that a slow one is not cut off by the next question.
export function useRepeated(again: () => Promise<void>, pause: number, going = true): void {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    if (!going) {
      return;
    }
    let timer = 0;
    let stopped = false;
    const ask = async () => {
      if (!document.hidden) {
        await latest.current();
      }
      if (!stopped) {
        timer = window.setTimeout(() => void ask(), pause);
      }
    };
    timer = window.setTimeout(() => void ask(), pause);
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [pause, going]);
}

export interface Asked<T> {
  data: T | undefined;
  error: string;
  again: () => Promise<void>;
}
