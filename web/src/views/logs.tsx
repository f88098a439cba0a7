// The log: every change of every message, by any filters, as it was or as it goes on.

import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";

import { LogReader, withoutBodies } from "../logpages";
import { most, useFeed, type Feed } from "../feed";
import { follow } from "../follow";
import { clock, iso, plural } from "../format";
import { openHref, setParams, usePlace } from "../router";
import { identity } from "../session";
import { states, type LogEntry, type State } from "../types";
import { Filters, known, type Filter } from "../ui/filters";
import { PublishForm } from "../ui/first";
import { Table, type Column } from "../ui/table";
import { Address, Badge, Empty, Fault } from "../ui/widgets";
import { Histogram } from "./histogram";

// stateFilters are the states, and the word of the API for those between acceptance and end.
const stateFilters: string[] = [...states, "IN_PROGRESS"];

export const logFilters: Filter[] = [
  { name: "messageId", label: "Message" },
  { name: "state", label: "State", options: stateFilters },
  { name: "url", label: "URL" },
  { name: "host", label: "Host" },
  { name: "path", label: "Path" },
  { name: "label", label: "Label" },
  { name: "queueName", label: "Queue" },
  { name: "topicName", label: "URL group" },
  { name: "scheduleId", label: "Schedule" },
  { name: "flowControlKey", label: "Flow-control key" },
  { name: "callerIp", label: "Caller's IP" },
];

// Row is what the table keeps of an entry: no bodies and no headers.
export interface Row {
  key: string;
  time: number;
  state: State;
  messageId: string;
  url: string;
  via: string; // queue, group or schedule
  note: string;
}

// interned are texts that many rows share, so that each is kept once.
const interned = new Map<string, string>();

function intern(text: string): string {
  if (interned.size > 10_000) {
    interned.clear();
  }
  const kept = interned.get(text);
  if (kept === undefined) {
    interned.set(text, text);
  }
  return kept ?? text;
}

let made = 0; // rows, of which each needs a key of its own

function newRow(entry: LogEntry): Row {
  const via = entry.queueName ?? entry.topicName ?? entry.scheduleId ?? "";
  return {
    key: String(made++),
    time: entry.time,
    state: entry.state,
    messageId: entry.messageId,
    url: intern(entry.url),
    via: intern(via),
    note: note(entry),
  };
}

function note(entry: LogEntry): string {
  if (entry.state === "RETRY" && entry.nextDeliveryTime !== undefined) {
    return "next attempt " + clock(entry.nextDeliveryTime);
  }
  return entry.error ?? "";
}

const columns: Column<Row>[] = [
  { name: "Time", width: "minmax(92px, 1.6fr)", cell: (row) => <time dateTime={iso(row.time)} title={iso(row.time)}>{clock(row.time)}</time> },
  { name: "State", width: "100px", cell: (row) => <Badge state={row.state} /> },
  { name: "Destination", width: "minmax(60px, 3fr)", cell: (row) => <Address of={row.url} /> },
  { name: "Via", width: "minmax(60px, 1fr)", wide: true, cell: (row) => row.via },
  { name: "Note", width: "minmax(100px, 3fr)", wide: true, cell: (row) => <span class={row.note === "" ? "" : "note"} title={row.note}>{row.note}</span> },
  { name: "Message", width: "minmax(90px, 2fr)", wide: true, cell: (row) => <code title={row.messageId}>{row.messageId}</code> },
];

// guessFilter knows what a text is by its look.
function guessFilter(text: string): string {
  if (text.startsWith("msg_")) {
    return "messageId";
  }
  if (/^https?:\/\//.test(text)) {
    return "url";
  }
  if (stateFilters.includes(text.toUpperCase())) {
    return "state";
  }
  return text.startsWith("/") ? "path" : text.includes(".") || text.includes(":") ? "host" : "label";
}

export function Logs() {
  const { params } = usePlace();
  const filters = known(logFilters, params);
  const key = filters.toString();
  const [again, setAgain] = useState(0);
  const [publishing, setPublishing] = useState(false);
  const reader = useMemo(() => new LogReader(), [key, again]);
  const feed = useFeed<Row>(key + again, async (cursor, signal) => {
    const page = await reader.read(filters, cursor, signal);
    return { rows: page.events.map(newRow), cursor: page.cursor };
  });
  useSecondPage(feed);
  const earliestFirst = params.get("order") === "earliestFirst";
  const live = params.has("live") && !earliestFirst;
  const tail = useTail(live, key, feed);
  const onEnd = useCallback(() => void feed.more(), [feed]);
  const open = useCallback((row: Row) => setParams({ open: row.messageId }), []);

  return (
    <section class="view" aria-labelledby="title">
      <header class="bar">
        <h1 id="title">Logs</h1>
        <Filters filters={logFilters} params={params} guess={guessFilter} />
        <div class="actions">
          <button aria-pressed={earliestFirst} title="Oldest entries first"
            onClick={() => setParams({ order: earliestFirst ? undefined : "earliestFirst", live: undefined })}>Oldest first</button>
          <button aria-pressed={live} class={live ? "live" : ""} onClick={() => setParams({ live: live ? undefined : "1", order: undefined, toDate: undefined })}>
            <span class="dot" aria-hidden="true" /> {tail.connected ? "Live" : live && feed.error === "" && tail.refusal === "" ? "Connecting…" : "Follow"}
          </button>
          <button onClick={() => setAgain(again + 1)}>Refresh</button>
          <button disabled={identity().readOnly} onClick={() => setPublishing(true)}>Publish…</button>
        </div>
      </header>
      {publishing && <PublishForm onClose={() => { setPublishing(false); setAgain(again + 1); }} />}
      <Histogram feed={feed} params={params} />
      {tail.held > 0 && <button class="pill" onClick={tail.release}>{plural(tail.held, "new entry", "new entries")}</button>}
      {feed.error !== "" && <Fault again={onEnd}>{feed.error}</Fault>}
      {tail.refusal !== "" && <Fault>The log cannot be followed: {tail.refusal}</Fault>}
      {feed.ended && feed.rows.length === 0 ? (
        <NoEntries filtered={key !== ""} />
      ) : (
        <Table label="Log entries" columns={columns} rows={feed.rows} rowKey={(row) => row.key} onOpen={open} hrefOf={(row) => openHref(row.messageId)} onEnd={onEnd}
          total={feed.ended ? feed.rows.length : undefined} onTop={tail.atTop}
          opened={openedRow(feed.rows, params.get("open"))}
          footer={<Footer feed={feed} earliestFirst={earliestFirst} />} />
      )}
    </section>
  );
}

// openedRow returns the key of the newest row of the message that is open.
function openedRow(rows: Row[], messageId: string | null): string | undefined {
  return messageId === null ? undefined : rows.find((row) => row.messageId === messageId)?.key;
}

// useSecondPage reads on once behind the first page, which alone is drawn at once, so
// that the histogram has more to show.
function useSecondPage(feed: Feed<Row>): void {
  const hasFirst = feed.rows.length > 0;
  useEffect(() => {
    if (hasFirst) {
      void feed.more();
    }
  }, [feed, hasFirst]);
}

const heldMost = 10_000; // entries that wait to be shown while somebody reads further down

// useTail puts entries before the others as they are written. While the first row is out
// of sight they are held back, so that nothing moves under the eyes of a reader.
function useTail(live: boolean, key: string, feed: Feed<Row>) {
  const [connected, setConnected] = useState(false);
  const [refusal, setRefusal] = useState("");
  const [held, setHeld] = useState(0);
  const waiting = useRef<Row[]>([]);
  const top = useRef(true);
  const release = useCallback(() => {
    if (waiting.current.length > 0) {
      feed.prepend(waiting.current.reverse());
      waiting.current = [];
      setHeld(0);
    }
  }, [feed]);
  const ready = feed.rows.length > 0 || feed.ended;
  useEffect(() => {
    waiting.current = [];
    setHeld(0);
    setRefusal("");
    if (!live || !ready) {
      return;
    }
    const begin = continuation(key, feed.rows);
    const stopped = new AbortController();
    const timer = setInterval(() => {
      if (top.current) {
        release();
      } else {
        setHeld(waiting.current.length);
      }
    }, 200);
    void follow<LogEntry>("/v2/logs", begin.query, {
      entries: (entries) => {
        for (const entry of entries) {
          if (!begin.has(entry)) {
            waiting.current.push(newRow(entry));
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
  }, [live, key, ready, release]);
  const atTop = useCallback((is: boolean) => {
    top.current = is;
  }, []);
  return useMemo(() => ({ connected, refusal, held, release, atTop }), [connected, refusal, held, release, atTop]);
}

// continuation returns what to follow so that nothing is missed behind the rows, newest
// first, that are there: all from the time of the newest on, less those of that very time
// that are rows already.
function continuation(key: string, rows: Row[]): { query: URLSearchParams; has: (entry: LogEntry) => boolean } {
  const query = new URLSearchParams(key);
  const newest = rows[0]?.time ?? Number(query.get("fromDate") ?? 0);
  query.set("fromDate", String(newest));
  query.set("trimBody", withoutBodies);
  query.delete("order"); // a stream has its own
  const end = rows.findIndex((row) => row.time < newest);
  const there = new Set(rows.slice(0, end < 0 ? rows.length : end).map((row) => row.messageId + row.state));
  return { query, has: (entry) => entry.time === newest && there.delete(entry.messageId + entry.state) };
}

function Footer({ feed, earliestFirst }: { feed: Feed<Row>; earliestFirst: boolean }) {
  if (feed.full) {
    const last = feed.rows[feed.rows.length - 1]!;
    return (
      <span>
        The list is limited to {plural(most, "entry", "entries")}.{" "}
        <button onClick={() => setParams({ [earliestFirst ? "fromDate" : "toDate"]: String(last.time), live: undefined })}>Continue from here</button>
      </span>
    );
  }
  if (feed.ended) {
    return <span>{plural(feed.rows.length, "entry", "entries")}, the {earliestFirst ? "newest" : "oldest"} was the last.</span>;
  }
  return <span>{feed.busy ? "Reading…" : ""}</span>;
}

function NoEntries({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <Empty title="Nothing matches these filters"><p>Remove a filter, or choose a longer time range.</p></Empty>
  ) : (
    <Empty title="The log is empty">
      <p>Publish a message with the button above or with a request. Each step of its delivery appears here.</p>
      <pre tabIndex={0}>{`curl -X POST ${location.origin}/v2/publish/https://example.com \\\n  -H "Authorization: Bearer $QSTASH_TOKEN" -d hello`}</pre>
    </Empty>
  );
}
