// The log: every change of every message, by any filters, as it was or as it grows.

import { useCallback, useEffect, useMemo, useState } from "preact/hooks";

import { LogReader, withoutBodies } from "../logpages";
import { most, useFeed, type Feed } from "../feed";
import { clock, iso, plural } from "../format";
import { openHref, setParams, usePlace } from "../router";
import type { LogEntry, State } from "../types";
import { Table, type Column } from "../ui/table";
import { useTail, type Continuation } from "../ui/tail";
import { Address, Badge } from "../ui/widgets";
import { Histogram } from "./histogram";
import { filtersIn, MessagesFrame } from "./messages";

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

export function Logs() {
  const { params } = usePlace();
  const filters = filtersIn(params);
  const key = filters.toString();
  const [again, setAgain] = useState(0);
  const reader = useMemo(() => new LogReader(), [key, again]);
  const feed = useFeed<Row>(key + again, async (cursor, signal) => {
    const page = await reader.read(filters, cursor, signal);
    return { rows: page.events.map(newRow), cursor: page.cursor };
  });
  useSecondPage(feed);
  const earliestFirst = params.get("order") === "earliestFirst";
  const live = params.has("live") && !earliestFirst && (feed.rows.length > 0 || feed.ended);
  const tail = useTail(live, key, () => continuation(key, feed.rows), newRow, (rows) => feed.prepend(rows.reverse()));
  const onEnd = useCallback(() => void feed.more(), [feed]);
  const hrefOf = useCallback((row: Row) => openHref(row.messageId), [params.toString()]);
  return (
    <MessagesFrame tab="logs" params={params} tail={tail} feed={feed} onAgain={() => setAgain(again + 1)} actions={
      <button aria-pressed={earliestFirst} title="Oldest entries first"
        onClick={() => setParams({ order: earliestFirst ? undefined : "earliestFirst", live: undefined })}>Oldest first</button>
    }>
      <Histogram feed={feed} params={params} />
      <Table label="Log entries" columns={columns} rows={feed.rows} rowKey={(row) => row.key} hrefOf={hrefOf} onEnd={onEnd}
        total={feed.ended ? feed.rows.length : undefined} onTop={tail.atTop}
        opened={openedRow(feed.rows, params.get("open"))}
        footer={<Footer feed={feed} earliestFirst={earliestFirst} />} />
    </MessagesFrame>
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

// continuation returns what to follow so that nothing is missed behind the rows, newest
// first, that are there: all from the time of the newest on, less those of that very time
// that are rows already.
function continuation(key: string, rows: Row[]): Continuation {
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
    return <span>{plural(feed.rows.length, "entry", "entries")} in all.</span>;
  }
  return <span>{feed.busy ? "Reading…" : ""}</span>;
}
