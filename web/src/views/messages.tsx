// Messages: a row for each, with how it is and why. The log of their changes is beside it.

import type { ComponentChildren } from "preact";
import { useCallback, useMemo, useRef, useState } from "preact/hooks";

import { useFeed, type Feed } from "../feed";
import { clock, count, iso, plural, span } from "../format";
import { withoutBodies } from "../logpages";
import { href, openHref, setParams, usePlace } from "../router";
import { readRows, RowReader, statesIn, type MessageRow } from "../rows";
import { identity } from "../session";
import { states } from "../types";
import { Filters, known, type Filter } from "../ui/filters";
import { PublishForm } from "../ui/first";
import { Table, type Column } from "../ui/table";
import { useTail, type Tail } from "../ui/tail";
import { Address, Badge, Empty, Fault } from "../ui/widgets";

// stateFilters are the states, and the word of the API for those between acceptance and end.
const stateFilters: string[] = [...states, "IN_PROGRESS"];

const filters: Filter[] = [
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
  { name: "responseStatus", label: "Response status" },
  { name: "method", label: "Method" },
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
  if (/^[1-9](\d\d|xx)$/.test(text)) {
    return "responseStatus";
  }
  return text.startsWith("/") ? "path" : text.includes(".") || text.includes(":") ? "host" : "label";
}

interface FrameProps {
  tab: "messages" | "logs";
  params: URLSearchParams;
  tail: Tail;
  feed: Feed<unknown>;
  onAgain: () => void;
  actions?: ComponentChildren;
  children: ComponentChildren;
}

// MessagesFrame is what the list of messages and the log have in common: their filters, and
// what follows them.
export function MessagesFrame({ tab, params, tail, feed, onAgain, actions, children }: FrameProps) {
  const [publishing, setPublishing] = useState(false);
  const live = params.has("live");
  const chosen = known(filters, params);
  chosen.delete("order");
  return (
    <section class="view" aria-labelledby="title">
      <header class="bar">
        <h1 id="title">Messages</h1>
        <div class="tabs">
          <a class="button" href={href("/messages", chosen)} aria-current={tab === "messages" ? "page" : undefined}>By message</a>
          <a class="button" href={href("/logs", chosen)} aria-current={tab === "logs" ? "page" : undefined}>Log of changes</a>
        </div>
        <Filters filters={filters} params={params} guess={guessFilter} />
        <div class="actions">
          {actions}
          <button aria-pressed={live} class={live ? "live" : ""} onClick={() => setParams({ live: live ? undefined : "1", order: undefined, toDate: undefined })}>
            <span class="dot" aria-hidden="true" /> {tail.connected ? "Live" : live && feed.error === "" && tail.refusal === "" ? "Connecting…" : "Follow"}
          </button>
          <button onClick={onAgain}>Refresh</button>
          <button class="primary" disabled={identity().readOnly} onClick={() => setPublishing(true)}>Publish…</button>
        </div>
      </header>
      {publishing && <PublishForm onClose={() => { setPublishing(false); onAgain(); }} />}
      {feed.error !== "" && <Fault again={() => void feed.more()}>{feed.error}</Fault>}
      {tail.refusal !== "" && <Fault>The log cannot be followed: {tail.refusal}</Fault>}
      {tail.held > 0 && <button class="pill" onClick={tail.release}>{plural(tail.held, "new entry", "new entries")}</button>}
      {feed.ended && feed.rows.length === 0 ? <NoEntries filtered={known(filters, params).size > 0} /> : children}
    </section>
  );
}

function NoEntries({ filtered }: { filtered: boolean }) {
  return filtered ? (
    <Empty title="Nothing matches these filters"><p>Remove a filter, or choose a longer time range.</p></Empty>
  ) : (
    <Empty title="There are no messages yet">
      <p>Publish a message with the button above or with a request. Each step of its delivery appears here.</p>
      <pre tabIndex={0}>{`curl -X POST ${location.origin}/v2/publish/https://example.com \\\n  -H "Authorization: Bearer $QSTASH_TOKEN" -d hello`}</pre>
    </Empty>
  );
}

// filtersIn returns the filters of the log that an address has.
export function filtersIn(params: URLSearchParams): URLSearchParams {
  return known(filters, params);
}

const columns: Column<MessageRow>[] = [
  { name: "State", width: "104px", cell: (row) => <Badge state={row.state} /> },
  { name: "Status", width: "52px", wide: true, cell: (row) => <span class={"number status" + (row.state === "DELIVERED" ? "" : " bad")}>{row.status}</span> },
  { name: "Destination", width: "minmax(60px, 3.2fr)", cell: (row) => <Address of={row.url} /> },
  { name: "Attempts", width: "70px", wide: true, cell: (row) => <span class="number">{row.partial && "≥ "}{count(row.attempts)} <small>of {count(row.atMost)}</small></span> },
  { name: "Took", width: "78px", wide: true, cell: (row) => <span class="number">{row.took === undefined ? "" : span(row.took)}</span> },
  { name: "Why", width: "minmax(100px, 2.6fr)", wide: true, cell: (row) => <span class="note" title={row.why}>{row.why}</span> },
  { name: "Via", width: "minmax(60px, 1.7fr)", widest: true, cell: (row) => <span title={row.via}>{row.via}</span> },
  { name: "Labels", width: "minmax(50px, 0.8fr)", widest: true, cell: (row) => <span title={row.labels}>{row.labels}</span> },
  { name: "Changed", width: "minmax(92px, 108px)", cell: (row) => <time dateTime={iso(row.changed)} title={iso(row.changed)}>{clock(row.changed)}</time> },
];

// Below is what a narrow screen shows of a message below its destination.
function Below(row: MessageRow) {
  const took = row.took === undefined ? "" : "in " + span(row.took);
  return [row.status, plural(row.attempts, "attempt"), took, row.why].filter((part) => part !== "").join(" · ");
}

export function Messages() {
  const { params } = usePlace();
  const chosen = known(filters, params);
  chosen.delete("order");
  const key = chosen.toString();
  const [again, setAgain] = useState(0);
  const reader = useMemo(() => new RowReader(), [key, again]);
  const feed = useFeed<MessageRow>(key + again, (cursor, signal) => reader.read(chosen, cursor, signal));
  const tail = useLiveRows(params.has("live"), chosen, feed);
  const onEnd = useCallback(() => void feed.more(), [feed]);
  const hrefOf = useCallback((row: MessageRow) => openHref(row.id), [params.toString()]);
  return (
    <MessagesFrame tab="messages" params={params} tail={tail} feed={feed} onAgain={() => setAgain(again + 1)}>
      <Table label="Messages" columns={columns} rows={feed.rows} rowKey={(row) => row.id} hrefOf={hrefOf} below={Below} onEnd={onEnd}
        total={feed.ended ? feed.rows.length : undefined} onTop={tail.atTop} opened={params.get("open") ?? undefined}
        footer={<Footer feed={feed} />} />
    </MessagesFrame>
  );
}

function Footer({ feed }: { feed: Feed<MessageRow> }) {
  if (feed.resting) {
    return <span>{feed.rows.length === 0 ? "None" : "No more"} among the changes read so far. <button onClick={() => void feed.more()}>Read on</button></span>;
  }
  return <span>{feed.ended || feed.full ? plural(feed.rows.length, "message") : feed.busy ? "Reading…" : ""}</span>;
}

// useLiveRows reads the rows of messages again that change, and puts new ones before the others.
function useLiveRows(live: boolean, chosen: URLSearchParams, feed: Feed<MessageRow>): Tail {
  const reading = useRef<Promise<void>>(Promise.resolve());
  const begin = () => {
    const query = new URLSearchParams(chosen);
    query.set("fromDate", String(feed.rows[0]?.changed ?? chosen.get("fromDate") ?? 0));
    query.set("trimBody", withoutBodies);
    query.delete("state"); // a row that has another state now goes
    return { query, has: () => false };
  };
  const update = async (ids: string[]) => {
    const wanted = statesIn(chosen);
    const read = new Map((await readRows(ids, AbortSignal.timeout(30_000))).map((row) => [row.id, row]));
    const old = feed.rows.map((row) => read.get(row.id) ?? row);
    old.forEach((row) => read.delete(row.id));
    const isWanted = (row: MessageRow) => wanted === undefined || wanted.has(row.state);
    feed.replace([...[...read.values()].reverse(), ...old].filter(isWanted));
  };
  const take = (ids: string[]) => {
    reading.current = reading.current.then(() => update([...new Set(ids)])).catch((error) => console.warn("rows were not read", error));
  };
  return useTail(live && (feed.rows.length > 0 || feed.ended), chosen.toString(), begin, (entry) => entry.messageId, take);
}
