// What failed for good: workflow runs and messages, to be looked at, restarted or
// deleted, some or all that match.

import { useCallback, useEffect, useState } from "preact/hooks";

import { get } from "../api";
import { causeOf, readCauses, type Cause } from "../causes";
import { useAsked, useFeed, type Page } from "../feed";
import { away, clock, count, iso, moment, plural } from "../format";
import { whenGone } from "../messages";
import { href, openHref, setParams, usePlace } from "../router";
import { messageOf } from "../saying";
import { identity } from "../session";
import type { DeadLetter, Usage } from "../types";
import { Filters, known, type Filter } from "../ui/filters";
import { Table, type Column } from "../ui/table";
import { Address, Empty, Fault, Loading, Tag } from "../ui/widgets";
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
  const [again, setAgain] = useState(0);
  const { data: usage, error } = useAsked("usage" + again, (signal) => get<Usage>("/v2/usage", undefined, signal), true);
  if (path === "" && usage === undefined) { // which tab is to be shown is not known yet
    return <section class="view" aria-labelledby="title"><header class="bar"><h1 id="title">Dead letters</h1></header>{error === "" ? <Loading /> : <Fault>{error}</Fault>}</section>;
  }
  const entries = { runs: usage?.failedRuns.entries, messages: usage?.deadLetters.entries };
  const kind: Kind = path.startsWith("messages") || path === "" && entries.runs === 0 && entries.messages! > 0 ? "messages" : "runs";
  return <Letters kind={kind} byCause={path.endsWith("/causes")} entries={entries} again={again} onChange={() => setAgain(again + 1)} />;
}

interface LettersProps {
  kind: Kind;
  byCause: boolean;
  entries: Record<Kind, number | undefined>;
  again: number;
  onChange: () => void;
}

function Letters({ kind, byCause, entries, again, onChange }: LettersProps) {
  const { params } = usePlace();
  const chosen = known(filters[kind], params);
  const tab = (name: string, of: Kind) => (
    <a class="button" href={href("/dlq/" + of)} aria-current={of === kind ? "page" : undefined}>{name}{entries[of] !== undefined && <> <span class="number muted">{count(entries[of])}</span></>}</a>
  );
  return (
    <section class={byCause ? "view scrolls" : "view"} aria-labelledby="title">
      <header class="bar">
        <h1 id="title">Dead letters</h1>
        <div class="tabs">{tab("Workflow runs", "runs")}{tab("Messages", "messages")}</div>
        <Filters filters={filters[kind]} params={params} />
        <div class="actions">
          <a class="button" href={href(`/dlq/${kind}${byCause ? "" : "/causes"}`, chosen)} aria-current={byCause ? "page" : undefined}>{byCause ? "One by one" : "By cause"}</a>
          <button onClick={onChange}>Refresh</button>
        </div>
      </header>
      {byCause ? <ByCause key={kind} kind={kind} chosen={chosen} again={again} onChange={onChange} /> : <Entries key={kind} kind={kind} again={again} onChange={onChange} />}
    </section>
  );
}

// ByCause shows how many failed of what, and takes deeds for all of one cause.
function ByCause({ kind, chosen, again, onChange }: { kind: Kind; chosen: URLSearchParams; again: number; onChange: () => void }) {
  const { data, error } = useAsked(chosen.toString() + again, (signal) => readCauses(kind, chosen, signal));
  const [doing, setDoing] = useState<{ deed: Deed; cause: Cause } | null>(null);
  if (data === undefined) {
    return error === "" ? <Loading /> : <Fault>{error}</Fault>;
  }
  if (data.causes.length === 0) {
    return <None of={kind} filtered={chosen.size > 0} />;
  }
  return (
    <>
      <p class="muted">{plural(data.causes.length, "cause")} of {data.more ? "the newest " : ""}{plural(data.read, "entry", "entries")}: the status of the last response, or the error if none came, and the host.</p>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Causes">
        <table class="plain">
          <thead><tr><th>Cause</th><th>Host</th><th>Entries</th><th>Most say</th><th>Last</th><th><span class="unseen">Actions</span></th></tr></thead>
          <tbody>
            {data.causes.map((cause) => (
              <tr key={cause.key}>
                <td data-column="Cause"><Tag tone="red">{cause.status || "none"}</Tag> {cause.error}</td>
                <td data-column="Host">{cause.host}</td>
                <td data-column="Entries" class="number">{count(cause.entries.length)}</td>
                <td data-column="Most say" class="breaks">{cause.says}</td>
                <td data-column="Last" title={moment(cause.first) + " – " + moment(cause.last)}>{away(cause.last)}</td>
                <td class="buttons">
                  <a class="button" href={href("/dlq/" + kind, withCause(chosen, cause.key))}>Show</a>
                  {deeds[kind].map((deed) => (
                    <button key={deed.name} class={deed.danger ? "danger" : undefined} disabled={identity().readOnly} onClick={() => setDoing({ deed, cause })}>{deed.name}…</button>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {doing !== null && <SweepDialog deed={doing.deed} kind={kind} chosen={doing.cause.entries} filters={chosen} onClose={(changed) => { setDoing(null); changed && onChange(); }} />}
    </>
  );
}

// None says that there are no entries of a kind.
function None({ of, filtered }: { of: Kind; filtered: boolean }) {
  return <Empty title={filtered ? "No entry matches these filters" : of === "runs" ? "No workflow run is in the dead letter queue" : "No message is in the dead letter queue"} />;
}

function withCause(chosen: URLSearchParams, cause: string): URLSearchParams {
  const params = new URLSearchParams(chosen);
  params.set("cause", cause);
  return params;
}

function Entries({ kind, again, onChange }: { kind: Kind; again: number; onChange: () => void }) {
  const { params } = usePlace();
  const cause = params.get("cause") ?? "";
  const chosen = known(filters[kind], params);
  const key = chosen.toString();
  const selection = useSelection(key + cause + again);
  const feed = useFeed<Row>(key + cause + again, (cursor, signal) => readPage(kind, chosen, cause, cursor, signal));
  const onEnd = useCallback(() => void feed.more(), [feed]);
  useEffect(() => whenGone((id) => feed.remove((row) => row.id === id)), [feed]);
  return (
    <>
      {cause !== "" && <p><button class="chip" aria-label={`Remove filter Cause: ${cause}`} onClick={() => setParams({ cause: undefined })}><span><b>Cause</b> {cause}</span><span aria-hidden="true">×</span></button></p>}
      {feed.error !== "" && <Fault again={onEnd}>{feed.error}</Fault>}
      {feed.ended && feed.rows.length === 0 ? (
        <None of={kind} filtered={key !== ""} />
      ) : (
        <>
          <Deeds kind={kind} filters={chosen} selection={selection} rows={feed.rows} onChange={onChange} whole={cause === ""} />
          <Table label="Dead letters" columns={columns} rows={feed.rows} rowKey={(row) => row.id} hrefOf={hrefOf} below={(row) => row.why} onEnd={onEnd}
            selected={selection.all ? new Set(feed.rows.map((row) => row.id)) : selection.ids} onSelect={selection.toggle}
            opened={feed.rows.find((row) => row.messageId === params.get("open"))?.id}
            total={feed.ended ? feed.rows.length : undefined}
            footer={feed.ended ? plural(feed.rows.length, "entry", "entries") : feed.busy ? "Reading…" : ""} />
        </>
      )}
    </>
  );
}

// readPage reads entries, those of one cause if it is given.
async function readPage(kind: Kind, chosen: URLSearchParams, cause: string, cursor: string | undefined, signal: AbortSignal): Promise<Page<Row>> {
  const query = new URLSearchParams(chosen);
  query.set("count", String(page));
  query.set("trimBody", String(toldIn));
  if (cursor !== undefined) {
    query.set("cursor", cursor);
  }
  const answer = await get<{ messages: DeadLetter[]; cursor?: string }>(lists[kind], query, signal);
  return { rows: answer.messages.filter((letter) => cause === "" || causeOf(letter) === cause).map(newRow), cursor: answer.cursor };
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
  whole: boolean; // all that match the filters can be selected at once
}

// Deeds shows what is selected and does something to it.
function Deeds({ kind, filters: chosen, selection: { all, ids, toggleAll }, rows, onChange, whole }: DeedsProps) {
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
        {whole && <button aria-pressed={all} onClick={toggleAll}>Select all that match</button>}
        <span>{all ? "All matching entries are selected." : some ? plural(ids.size, "entry", "entries") + " selected." : "Select entries with their checkboxes or the Space key."}</span>
        {deeds[kind].map((deed) => (
          <button key={deed.name} class={deed.danger ? "danger" : undefined} disabled={!some || identity().readOnly} onClick={() => setDoing(deed)}>{deed.name}…</button>
        ))}
      </div>
      {doing !== null && <SweepDialog deed={doing} kind={kind} chosen={all ? null : rows.filter((row) => ids.has(row.id))} filters={chosen} onClose={close} />}
    </>
  );
}
