// What failed for good: workflow runs and messages, to be looked at, restarted or
// deleted, some or all that match.

import { useCallback, useEffect, useState } from "preact/hooks";

import { get } from "../api";
import { useFeed, type Page } from "../feed";
import { clock, iso, plural } from "../format";
import { whenGone } from "../messages";
import { href, openHref, usePlace } from "../router";
import { messageOf } from "../saying";
import { identity } from "../session";
import type { DeadLetter } from "../types";
import { Filters, known, type Filter } from "../ui/filters";
import { Table, type Column } from "../ui/table";
import { Address, Empty, Fault, Tag } from "../ui/widgets";
import { toldIn } from "../why";
import { runPlace } from "./runs";
import { SweepDialog } from "./sweep";
import { deeds, entryOf, lists, type Deed, type Entry, type Kind } from "../sweep";

const shared: Filter[] = [
  { name: "label", label: "Label" },
  { name: "responseStatus", label: "Response status" },
  { name: "flowControlKey", label: "Flow-control key" },
  { name: "callerIp", label: "Caller's IP" },
];

const filters: Record<Kind, Filter[]> = {
  runs: [
    { name: "workflowUrl", label: "Workflow URL" },
    { name: "workflowRunId", label: "Run" },
    { name: "workflowCreatedAt", label: "Run created at (Unix ms)" },
    { name: "failureFunctionState", label: "Failure function", options: ["CALLBACK_INPROGRESS", "CALLBACK_SUCCESS", "CALLBACK_FAIL", "CALLBACK_CANCELED"] },
    ...shared,
  ],
  messages: [
    { name: "url", label: "URL" },
    { name: "messageId", label: "Message" },
    { name: "queueName", label: "Queue" },
    { name: "topicName", label: "URL group" },
    { name: "scheduleId", label: "Schedule" },
    ...shared,
  ],
};

// Row is what the table keeps of an entry.
interface Row extends Entry {
  failedAt: number;
  status: number;
  why: string;
  labels: string;
}

function newRow(letter: DeadLetter): Row {
  return {
    ...entryOf(letter),
    failedAt: letter.failedAt,
    status: letter.responseStatus,
    why: messageOf(letter.responseBody ?? "") || (letter.error ?? ""),
    labels: letter.labels?.join(", ") ?? "",
  };
}

function nameOf(row: Row): string {
  return row.run?.workflowRunId ?? row.messageId;
}

const columns: Column<Row>[] = [
  { name: "Failed", width: "minmax(92px, 1.6fr)", cell: (row) => <time dateTime={iso(row.failedAt)} title={iso(row.failedAt)}>{clock(row.failedAt)}</time> },
  { name: "Status", width: "64px", cell: (row) => <Tag tone="red">{row.status || "none"}</Tag> },
  { name: "Destination", width: "minmax(60px, 2fr)", cell: (row) => <Address of={row.url} /> },
  { name: "Why", width: "minmax(100px, 4fr)", wide: true, cell: (row) => <span class="note" title={row.why}>{row.why}</span> },
  { name: "Labels", width: "minmax(60px, 1fr)", wide: true, cell: (row) => row.labels },
  { name: "Run or message", width: "minmax(90px, 1.6fr)", wide: true, cell: (row) => <code title={nameOf(row)}>{nameOf(row)}</code> },
];

const page = 100; // entries

export function DLQ({ path }: { path: string }) {
  const kind: Kind = path === "messages" ? "messages" : "runs";
  return <Entries key={kind} kind={kind} />;
}

function Entries({ kind }: { kind: Kind }) {
  const { params } = usePlace();
  const chosen = known(filters[kind], params);
  const key = chosen.toString();
  const [again, setAgain] = useState(0);
  const selection = useSelection(key + again);
  const feed = useFeed<Row>(key + again, (cursor, signal) => readPage(kind, chosen, cursor, signal));
  const onEnd = useCallback(() => void feed.more(), [feed]);
  useEffect(() => whenGone((id) => feed.remove((row) => row.id === id)), [feed]);
  return (
    <section class="view" aria-labelledby="title">
      <header class="bar">
        <h1 id="title">Dead letters</h1>
        <div class="tabs">
          <a class="button" href={href("/dlq/runs")} aria-current={kind === "runs" ? "page" : undefined}>Workflow runs</a>
          <a class="button" href={href("/dlq/messages")} aria-current={kind === "messages" ? "page" : undefined}>Messages</a>
        </div>
        <Filters filters={filters[kind]} params={params} />
        <div class="actions"><button onClick={() => setAgain(again + 1)}>Refresh</button></div>
      </header>
      {feed.error !== "" && <Fault again={onEnd}>{feed.error}</Fault>}
      {feed.ended && feed.rows.length === 0 ? (
        <Empty title={key === "" ? "The dead letter queue is empty" : "No entry matches these filters"} />
      ) : (
        <>
          <Deeds kind={kind} filters={chosen} selection={selection} rows={feed.rows} onChange={() => setAgain(again + 1)} />
          <Table label="Dead letters" columns={columns} rows={feed.rows} rowKey={(row) => row.id} hrefOf={hrefOf} onEnd={onEnd}
            selected={selection.all ? new Set(feed.rows.map((row) => row.id)) : selection.ids} onSelect={selection.toggle}
            opened={feed.rows.find((row) => row.messageId === params.get("open"))?.id}
            total={feed.ended ? feed.rows.length : undefined}
            footer={feed.ended ? plural(feed.rows.length, "entry", "entries") : feed.busy ? "Reading…" : ""} />
        </>
      )}
    </section>
  );
}

async function readPage(kind: Kind, chosen: URLSearchParams, cursor: string | undefined, signal: AbortSignal): Promise<Page<Row>> {
  const query = new URLSearchParams(chosen);
  query.set("count", String(page));
  query.set("trimBody", String(toldIn));
  if (cursor !== undefined) {
    query.set("cursor", cursor);
  }
  const answer = await get<{ messages: DeadLetter[]; cursor?: string }>(lists[kind], query, signal);
  return { rows: answer.messages.map(newRow), cursor: answer.cursor };
}

function hrefOf(row: Row): string {
  return row.run === undefined ? openHref(row.messageId) : href(...runPlace(row.run));
}

// Selection is what the next deed is for: all that match, or some.
interface Selection {
  all: boolean;
  ids: Set<string>;
  toggleAll: () => void;
  toggle: (row: Row) => void;
}

// useSelection returns a selection. For another key it is empty.
function useSelection(key: string): Selection {
  const empty = { key, all: false, ids: new Set<string>() };
  const [held, setHeld] = useState(empty);
  const { all, ids } = held.key === key ? held : empty;
  const toggle = useCallback((row: Row) => setHeld((old) => {
    const changed = new Set(old.key === key ? old.ids : []);
    if (!changed.delete(row.id)) {
      changed.add(row.id);
    }
    return { key, all: false, ids: changed };
  }), [key]);
  return { all, ids, toggleAll: () => setHeld({ ...empty, all: !all }), toggle };
}

interface DeedsProps {
  kind: Kind;
  filters: URLSearchParams;
  selection: Selection;
  rows: Row[];
  onChange: () => void;
}

// Deeds tells what is selected and does something to it.
function Deeds({ kind, filters: chosen, selection: { all, ids, toggleAll }, rows, onChange }: DeedsProps) {
  const [doing, setDoing] = useState<Deed | null>(null);
  const some = all || ids.size > 0;
  const close = (changed: boolean) => {
    setDoing(null);
    if (changed) {
      onChange();
    }
  };
  return (
    <>
      <div class="selection" role="toolbar" aria-label="Selected entries">
        <button aria-pressed={all} onClick={toggleAll}>Select all that match</button>
        <span>{all ? "All matching entries are selected." : some ? plural(ids.size, "entry", "entries") + " selected." : "Select entries with their checkboxes or the Space key."}</span>
        {deeds[kind].map((deed) => (
          <button key={deed.name} class={deed.danger ? "danger" : undefined} disabled={!some || identity().readOnly} onClick={() => setDoing(deed)}>{deed.name}…</button>
        ))}
      </div>
      {doing !== null && <SweepDialog deed={doing} kind={kind} chosen={all ? null : rows.filter((row) => ids.has(row.id))} filters={chosen} onClose={close} />}
    </>
  );
}
