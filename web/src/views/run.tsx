// One run: how it ended or what it waits for, its steps over time, and the one that is selected.

import { useState } from "preact/hooks";

import { call, get, post } from "../api";
import { useAsked, useRepeated } from "../feed";
import { span } from "../format";
import { withoutBodies } from "../logpages";
import { startAgain } from "../publication";
import { go, href, usePlace } from "../router";
import { identity } from "../session";
import { overrides } from "../sweep";
import { timings, type RunEvent } from "../timing";
import type { DeadLetter, Run, RunPage, RunRef } from "../types";
import { Act, Ask, Form, useChange, type Change } from "../ui/act";
import { Badge, Body, Copy, Empty, Facts, Fault, Field, Loading, Overrides, Time, toneOf } from "../ui/widgets";
import { whyRun } from "../why";
import { Compare, CompareWith } from "./compare";
import { RunLink, runPlace } from "./runs";
import { StepPanel } from "./step";
import { Waterfall } from "./waterfall";

interface Known {
  run: Run | undefined; // its dlqId is that of an entry that is still there
  events: RunEvent[];
}

async function ask(id: string, created: string | null, signal: AbortSignal): Promise<Known> {
  const which = created === null ? { workflowRunId: id } : { workflowRuns: id + "@" + created };
  const [runs, changes] = await Promise.all([
    get<RunPage>("/v2/workflows/logs", { ...which, count: 1 }, signal),
    get<{ events: RunEvent[] }>("/v2/workflows/events", { ...which, order: "earliestFirst", trimBody: -1 }, signal),
  ]);
  const run = runs.runs[0];
  return { run: run && { ...run, dlqId: await entryOf(run, signal) }, events: changes.events };
}

// entryOf returns the id of a run's entry in the DLQ while there is one. The run itself
// keeps the id when the entry is gone.
async function entryOf(run: Run, signal: AbortSignal): Promise<string | undefined> {
  if (run.dlqId === undefined || run.successor !== undefined) {
    return undefined;
  }
  const page = await get<{ messages: DeadLetter[] }>("/v2/workflows/dlq", { dlqIds: run.dlqId, trimBody: withoutBodies }, signal);
  return page.messages[0]?.dlqId;
}

const pause = 1000; // ms between two readings of an active run

export function RunView({ id }: { id: string }) {
  const { params } = usePlace();
  const created = params.get("created");
  const { data, error, again } = useAsked(id + "@" + created, (signal) => ask(id, created, signal));
  const run = data?.run;
  const going = run?.workflowState === "RUN_STARTED" || run?.failureFunction?.state === "CALLBACK_INPROGRESS";
  useRepeated(again, pause, going);
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar">
        <h1 id="title"><a href={href("/runs")}>Workflow runs</a> / <code>{id}</code> {run !== undefined && <Badge state={run.workflowState} />}</h1>
        <div class="actions">
          {run !== undefined && <Others run={run} chosen={params.get("compare") ?? ""} />}
          <Copy text={() => id}>Copy id</Copy>
        </div>
      </header>
      {error !== "" && <Fault again={() => void again()}>{error}</Fault>}
      {data === undefined && error === "" && <Loading />}
      {data !== undefined && run === undefined && <Empty title="Run not found"><p>No run has the id {id}. Check the id; or the run is older than the retention period, or belongs to another user.</p></Empty>}
      {run !== undefined && <Shown run={run} events={data!.events} again={again} />}
    </section>
  );
}

// Others offers the runs that this one can be compared with.
function Others({ run, chosen }: { run: Run; chosen: string }) {
  const { data } = useAsked(run.workflowRunId + run.workflowState, (signal) =>
    get<RunPage>("/v2/workflows/logs", { workflowUrl: run.workflowUrl, count: 10, trimBody: withoutBodies }, signal));
  const related = ([["the run it restarts", run.restartOf], ["the run it resumes", run.resumeOf], ["the run it was restarted as", run.successor]] as [string, RunRef | undefined][])
    .filter((one): one is [string, RunRef] => one[1] !== undefined);
  const others = (data?.runs ?? []).filter((one) => one.workflowRunId !== run.workflowRunId || one.workflowRunCreatedAt !== run.workflowRunCreatedAt);
  return <CompareWith related={related} others={others} chosen={chosen} />;
}

function Shown({ run, events, again }: { run: Run; events: RunEvent[]; again: () => Promise<void> }) {
  const { params } = usePlace();
  const compare = params.get("compare");
  return (
    <>
      <Deeds run={run} again={again} />
      <Summary run={run} />
      {compare === null ? <Steps run={run} events={events} again={again} /> : <Compared run={run} events={events} other={compare} />}
    </>
  );
}

function Summary({ run }: { run: Run }) {
  const start = run.workflowRunCreatedAt;
  const end = run.workflowRunCompletedAt;
  return (
    <div class={"panel summary edge-" + toneOf(run.workflowState)}>
      <div class="why-run">
        <h2>{run.workflowState === "RUN_STARTED" ? "What it is waiting for" : "How it ended"}</h2>
        <ul>{whyRun(run).map((reason) => <li key={reason}>{reason}</li>)}</ul>
      </div>
      <Facts of={[
        ["Workflow", run.workflowUrl],
        ["Started", <Time at={start} />],
        ["Ended", end && <><Time at={end} />, after {span(end - start)}</>],
        ["Labels", run.labels?.join(", ")],
        ["Flow control", run.flowControlKey],
        ["Caller", run.workflowRunCallerIp],
        ["Restart of", run.restartOf && <RunLink to={run.restartOf} />],
        ["Resumed from", run.resumeOf && <RunLink to={run.resumeOf} />],
        ["Restarted as", run.successor && <RunLink to={run.successor} />],
        ["Invoked by", run.invoker && <RunLink to={run.invoker} />],
        ["Failure function", run.failureFunction && <><Badge state={run.failureFunction.state} /> {run.failureFunction.url}</>],
      ]} />
    </div>
  );
}

function Steps({ run, events, again }: { run: Run; events: RunEvent[]; again: () => Promise<void> }) {
  const { params } = usePlace();
  const times = timings(run, events);
  const steps = run.steps.flatMap((group) => group.steps);
  const selected = steps[Number(params.get("step") ?? NaN)] ?? telling(run);
  const index = selected === undefined ? -1 : steps.indexOf(selected);
  return (
    <div class="run-columns">
      <div>
        <div class="panel"><Waterfall groups={run.steps} times={times} start={run.workflowRunCreatedAt} end={run.workflowRunCompletedAt ?? Date.now()} selected={index} /></div>
        {run.workflowRunResponse !== undefined && (
          <div class="panel result">
            <h3>Result of the run</h3>
            <Body text={run.workflowRunResponse} label="Result of the run" />
          </div>
        )}
      </div>
      {selected !== undefined && <StepPanel key={index} step={selected} earlier={steps.slice(0, index)} time={times.get(selected)!} again={again} />}
    </div>
  );
}

// telling returns the step that tells the most: one that failed, one that is waited for, or
// else the last.
function telling(run: Run) {
  const steps = run.steps.flatMap((group) => group.steps);
  return ["STEP_FAILED", "STEP_RETRY", "STEP_PROGRESS"].map((state) => steps.find((step) => step.state === state)).find((step) => step !== undefined) ?? steps.at(-1);
}

function Compared({ run, events, other }: { run: Run; events: RunEvent[]; other: string }) {
  const { params } = usePlace();
  const at = other.lastIndexOf("@");
  const { data, error } = useAsked(other, (signal) => ask(other.slice(0, at), other.slice(at + 1), signal));
  if (error !== "" || (data !== undefined && data.run === undefined)) {
    return <Fault>{error || "The other run no longer exists."}</Fault>;
  }
  return data === undefined ? <Loading /> : <Compare left={{ run, events }} right={{ run: data.run!, events: data.events }} selected={params.get("step")} />;
}

function Deeds({ run, again }: { run: Run; again: () => Promise<void> }) {
  const [change, fault] = useChange(again);
  const [asking, setAsking] = useState("");
  const [changing, setChanging] = useState(false);
  const show = (made: { workflowRunId: string; workflowCreatedAt: number }) => go(...runPlace({ workflowRunId: made.workflowRunId, workflowRunCreatedAt: made.workflowCreatedAt }));
  const begin = (how: "restart" | "resume") => async () => show(await post(`/v2/workflows/dlq/${how}/${run.dlqId}`));
  const cancel = () => call("DELETE", "/v2/workflows/runs/" + encodeURIComponent(run.workflowRunId), { query: { cancel: true } });
  const waits = run.steps.flatMap((group) => group.steps).filter((step) => step.state === "STEP_PROGRESS" && step.waitEventId !== undefined);
  const isOver = run.workflowState === "RUN_CANCELED" || (run.workflowState === "RUN_FAILED" && run.dlqId === undefined);
  return (
    <>
      <div class="deeds">
        {run.dlqId !== undefined && <Act primary change={change} deed={begin("restart")}>Restart</Act>}
        {run.dlqId !== undefined && <Act change={change} deed={begin("resume")} title="Continues from the failed step and keeps the results of earlier steps">Resume</Act>}
        {run.dlqId !== undefined && run.failureFunction !== undefined && <FailureDeed run={run} change={change} />}
        {isOver && <Act change={change} deed={async () => show(await startAgain(run))} title="Starts a new run with the payload, headers and settings of this one">Start again</Act>}
        {run.workflowState !== "RUN_STARTED" && <button disabled={identity().readOnly} onClick={() => setChanging(true)}>{run.dlqId === undefined ? "Start again" : "Restart"} with changes…</button>}
        {waits.map((step) => (
          <button key={step.messageId} class="primary" disabled={identity().readOnly} onClick={() => setAsking(step.waitEventId!)}>Notify {step.waitEventId}</button>
        ))}
        <a class="button" href={href("/runs", { workflowUrl: run.workflowUrl })}>Runs of this workflow</a>
        {run.workflowState === "RUN_STARTED" && (
          <Ask change={change} deed={cancel} title="Cancel this run" submit="Cancel the run"
            means="No further steps are run, its failure function is not called, and it is not moved to the DLQ. It can be started again from its payload.">Cancel run</Ask>
        )}
      </div>
      {fault !== "" && <Fault>{fault}</Fault>}
      {changing && <Changes run={run} show={show} onClose={() => setChanging(false)} />}
      {asking !== "" && <Notify runId={run.workflowRunId} eventId={asking} onClose={() => { setAsking(""); void again(); }} />}
    </>
  );
}

interface ChangesProps {
  run: Run;
  show: (made: { workflowRunId: string; workflowCreatedAt: number }) => void;
  onClose: () => void;
}

// Changes restarts a run with another payload or other settings. The API restarts a run with
// its own payload only: with another one it is a new run.
function Changes({ run, show, onClose }: ChangesProps) {
  const before = run.steps[0]?.steps[0]?.out ?? "";
  const [payload, setPayload] = useState(before);
  const [headers, setHeaders] = useState<Record<string, string>>({});
  const restarts = run.dlqId !== undefined && payload === before;
  const save = async () => {
    const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value.trim() !== ""));
    show(restarts ? await post(`/v2/workflows/dlq/restart/${run.dlqId}`, undefined, { headers: given }) : await startAgain(run, given, payload === before ? undefined : payload));
  };
  return (
    <Form title="Restart with changes" submit={restarts ? "Restart" : "Start a new run"} save={save} done={onClose} wide>
      <Field label="Payload" hint={restarts ? "Unchanged: this run is restarted and leaves the DLQ." : "A new run is started; this one stays as it is."}>
        <textarea rows={8} spellcheck={false} value={payload} onInput={(event) => setPayload(event.currentTarget.value)} />
      </Field>
      <Overrides of={overrides} headers={headers} onHeaders={setHeaders} />
    </Form>
  );
}

// FailureDeed repeats the failure function of a run, or cancels it while it is in progress.
function FailureDeed({ run, change }: { run: Run; change: Change }) {
  const path = "/v2/workflows/dlq/callback/" + run.dlqId;
  return run.failureFunction?.state === "CALLBACK_INPROGRESS"
    ? <Ask change={change} deed={() => call("DELETE", path)} title="Cancel the failure function" submit="Cancel it" means="It is not called again unless you retry it.">Cancel the failure function</Ask>
    : <Act change={change} deed={() => call("POST", path)}>Retry the failure function</Act>;
}

function Notify({ runId, eventId, onClose }: { runId: string; eventId: string; onClose: () => void }) {
  const [text, setText] = useState("{}");
  const send = () => call("POST", `/v2/notify/${encodeURIComponent(runId)}/${encodeURIComponent(eventId)}`, { body: text });
  return (
    <Form title={"Notify " + eventId} submit="Notify" save={send} done={onClose}>
      <Field label="Event data" hint="Passed to the workflow, usually JSON.">
        <textarea rows={6} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}
