// Workflow runs: the list of them, and one as a picture of its steps.

import { useCallback, useState } from "preact/hooks";

import { get } from "../api";
import { useFeed } from "../feed";
import { clock, iso, plural, span } from "../format";
import { href, segment, usePlace } from "../router";
import { messageOf } from "../saying";
import { identity } from "../session";
import { runStates, type Run, type RunPage, type RunRef, type Step } from "../types";
import { Filters, known, type Filter } from "../ui/filters";
import { StartForm } from "../ui/first";
import { Table, type Column } from "../ui/table";
import { Address, Badge, Empty, Fault } from "../ui/widgets";
import { toldIn, whyRun } from "../why";
import { RunView } from "./run";

const filters: Filter[] = [
  { name: "workflowRunId", label: "Run" },
  { name: "workflowCreatedAt", label: "Created at (Unix ms)" },
  { name: "state", label: "State", options: [...runStates, "STEP_PROGRESS", "STEP_RETRY", "STEP_FAILED"] },
  { name: "workflowUrl", label: "Workflow URL" },
  { name: "host", label: "Host" },
  { name: "path", label: "Path" },
  { name: "label", label: "Label" },
  { name: "messageId", label: "Message" },
  { name: "flowControlKey", label: "Flow-control key" },
  { name: "callerIp", label: "Caller's IP" },
];

interface Row {
  id: string;
  createdAt: number;
  url: string;
  state: string;
  took: string;
  labels: string;
  note: string;
}

function newRow(run: Run): Row {
  const failed = run.steps.flatMap((group) => group.steps).find((step) => step.state === "STEP_FAILED");
  const end = run.workflowRunCompletedAt;
  return {
    id: run.workflowRunId,
    createdAt: run.workflowRunCreatedAt,
    url: run.workflowUrl,
    state: run.workflowState,
    took: end === undefined ? "" : span(end - run.workflowRunCreatedAt),
    labels: run.labels?.join(", ") ?? "",
    note: failed !== undefined ? reason(failed) : run.workflowState === "RUN_STARTED" ? (whyRun(run)[0] ?? "") : "",
  };
}

// reason returns why a step failed: what the workflow's own error says, if it says any.
export function reason(step: Step): string {
  const last = step.errors?.at(-1);
  const name = step.stepName ? step.stepName + ": " : "";
  return name + (last === undefined ? "failed" : messageOf(last.body) || last.error);
}

const columns: Column<Row>[] = [
  { name: "Started", width: "minmax(92px, 1.6fr)", cell: (row) => <time dateTime={iso(row.createdAt)} title={iso(row.createdAt)}>{clock(row.createdAt)}</time> },
  { name: "State", width: "96px", cell: (row) => <Badge state={row.state} /> },
  { name: "Workflow", width: "minmax(60px, 2fr)", cell: (row) => <Address of={row.url} /> },
  { name: "Took", width: "90px", wide: true, cell: (row) => <span class="number">{row.took}</span> },
  { name: "Waiting for, or why it failed", width: "minmax(100px, 4fr)", wide: true, cell: (row) => <span class="note" title={row.note}>{row.note}</span> },
  { name: "Labels", width: "minmax(60px, 1fr)", wide: true, cell: (row) => row.labels },
  { name: "Run", width: "minmax(90px, 1.5fr)", wide: true, cell: (row) => <code title={row.id}>{row.id}</code> },
];

const page = 50; // runs

// runPlace returns the path and the parameters of a run's view.
export function runPlace(ref: RunRef): [string, URLSearchParams] {
  return ["/runs/" + encodeURIComponent(ref.workflowRunId), new URLSearchParams({ created: String(ref.workflowRunCreatedAt) })];
}

export function RunLink({ to }: { to: RunRef }) {
  return <a href={href(...runPlace(to))}>{to.workflowRunId}</a>;
}

function placeOf(row: Row): [string, URLSearchParams] {
  return runPlace({ workflowRunId: row.id, workflowRunCreatedAt: row.createdAt });
}

export function Runs({ path }: { path: string }) {
  return path === "" ? <RunList /> : <RunView id={segment(path)} />;
}

function guessFilter(text: string): string {
  if (text.startsWith("msg_")) {
    return "messageId";
  }
  if (/^https?:\/\//.test(text)) {
    return "workflowUrl";
  }
  return text.startsWith("wfr_") ? "workflowRunId" : text.startsWith("/") ? "path" : "label";
}

function RunList() {
  const { params } = usePlace();
  const chosen = known(filters, params);
  const key = chosen.toString();
  const [again, setAgain] = useState(0);
  const [starting, setStarting] = useState(false);
  const feed = useFeed<Row>(key + again, async (cursor, signal) => {
    const query = new URLSearchParams(chosen);
    query.set("count", String(page));
    query.set("trimBody", String(toldIn));
    if (cursor !== undefined) {
      query.set("cursor", cursor);
    }
    const answer = await get<RunPage>("/v2/workflows/logs", query, signal);
    return { rows: answer.runs.map(newRow), cursor: answer.cursor };
  });
  const onEnd = useCallback(() => void feed.more(), [feed]);
  return (
    <section class="view" aria-labelledby="title">
      <header class="bar">
        <h1 id="title">Workflow runs</h1>
        <Filters filters={filters} params={params} guess={guessFilter} />
        <div class="actions">
          <button onClick={() => setAgain(again + 1)}>Refresh</button>
          <button disabled={identity().readOnly} onClick={() => setStarting(true)}>Start a run…</button>
        </div>
      </header>
      {starting && <StartForm onClose={() => setStarting(false)} />}
      {feed.error !== "" && <Fault again={onEnd}>{feed.error}</Fault>}
      {feed.ended && feed.rows.length === 0 ? (
        <Empty title={key === "" ? "There are no workflow runs yet" : "No run matches these filters"}>
          {key === "" && <p>A workflow is a function of your app, served by the Workflow SDK, whose completed steps are not repeated. <a href="/docs" target="_blank" rel="noopener">The guides</a> have one for each language. Start a run with the button above or with a request:</p>}
          {key === "" && <pre tabIndex={0}>{`curl -X POST ${location.origin}/v2/trigger/http://localhost:3000/workflow \\\n  -H "Authorization: Bearer $QSTASH_TOKEN" -d '{"order":1}'`}</pre>}
        </Empty>
      ) : (
        <Table label="Workflow runs" columns={columns} rows={feed.rows} rowKey={(row) => row.id + row.createdAt} hrefOf={(row) => href(...placeOf(row))} onEnd={onEnd}
          below={(row) => [row.took, row.note].filter((part) => part !== "").join(" · ")}
          total={feed.ended ? feed.rows.length : undefined}
          footer={feed.ended ? plural(feed.rows.length, "run") : feed.busy ? "Reading…" : ""} />
      )}
    </section>
  );
}
