// Following a list: what is written to the log meanwhile comes in at once, unless its first row
// is out of sight: then it waits, so that nothing moves under the eyes of a reader.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";

import { follow } from "../follow";
import type { LogEntry } from "../types";

export interface Continuation {
  query: URLSearchParams; // what is followed
  has: (entry: LogEntry) => boolean; // it is in the list already
}

export interface Tail {
  connected: boolean;
  refusal: string; // why nothing can be followed, "" if it can
  held: number; // things that wait
  release: () => void;
  atTop: (is: boolean) => void; // called by the list
}

const heldMost = 10_000; // things that wait to be shown

// useTail follows while it is live, from where begin says. What comes is kept as make makes it
// of each entry, and given to take, oldest first.
export function useTail<T>(live: boolean, key: string, begin: () => Continuation, make: (entry: LogEntry) => T, take: (things: T[]) => void): Tail {
  const [connected, setConnected] = useState(false);
  const [refusal, setRefusal] = useState("");
  const [held, setHeld] = useState(0);
  const waiting = useRef<T[]>([]);
  const top = useRef(true);
  const latest = useRef({ begin, make, take });
  latest.current = { begin, make, take };
  const release = useCallback(() => {
    if (waiting.current.length > 0) {
      latest.current.take(waiting.current.splice(0));
      setHeld(0);
    }
  }, []);
  useEffect(() => {
    waiting.current = [];
    setHeld(0);
    setRefusal("");
    if (!live) {
      return;
    }
    const { query, has } = latest.current.begin();
    const stopped = new AbortController();
    const timer = setInterval(() => {
      if (top.current) {
        release();
      } else {
        setHeld(waiting.current.length);
      }
    }, 200);
    void follow<LogEntry>("/v2/logs", query, {
      entries: (entries) => {
        for (const entry of entries) {
          if (!has(entry)) {
            waiting.current.push(latest.current.make(entry));
          }
        }
        waiting.current.splice(0, waiting.current.length - heldMost);
      },
      state: setConnected,
      refused: setRefusal,
    }, stopped.signal);
    return () => {
      stopped.abort();
      clearInterval(timer);
      setConnected(false);
    };
  }, [live, key]);
  const atTop = useCallback((is: boolean) => {
    top.current = is;
  }, []);
  return useMemo(() => ({ connected, refusal, held, release, atTop }), [connected, refusal, held, release, atTop]);
}
