// One run as a picture: its steps from top to bottom, parallel ones side by side, with
// the time each took and why it did not go on.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { call, get, post } from "../api";
import { useAsked, useRepeated } from "../feed";
import { clock, plural, span } from "../format";
import { withoutBodies } from "../logpages";
import { runMessageNow } from "../messages";
import { startAgain } from "../publication";
import { go, href, setParams, usePlace } from "../router";
import { messageOf } from "../saying";
import { identity } from "../session";
import { timings, type RunEvent, type Timing } from "../timing";
import type { DeadLetter, Run, RunPage, RunRef, Step, StepGroup } from "../types";
import { Act, Ask, Form, useChange, type Change } from "../ui/act";
import { Badge, Body, Copy, Empty, Facts, Fault, Field, Tag, Time } from "../ui/widgets";
import { whyRun } from "../why";
import { runPlace } from "./runs";

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

const pause = 1000; // ms between two readings of a run that goes on

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
        <div class="actions"><Copy text={() => id}>Copy id</Copy></div>
      </header>
      {error !== "" && <Fault again={() => void again()}>{error}</Fault>}
      {data !== undefined && run === undefined && <Empty title="Run not found"><p>It is older than the retention period, or belongs to another user.</p></Empty>}
      {run !== undefined && <Picture run={run} events={data!.events} again={again} />}
    </section>
  );
}

function Picture({ run, events, again }: { run: Run; events: RunEvent[]; again: () => Promise<void> }) {
  const start = run.workflowRunCreatedAt;
  const end = run.workflowRunCompletedAt ?? Date.now();
  const times = timings(run, events);
  return (
    <>
      <Deeds run={run} again={again} />
      <div class="columns">
        <div>
          <div class="why">
            <h2>{run.workflowState === "RUN_STARTED" ? "What it is waiting for" : "How it ended"}</h2>
            <ul>{whyRun(run).map((reason) => <li key={reason}>{reason}</li>)}</ul>
          </div>
          <Facts of={[
            ["Workflow", run.workflowUrl],
            ["Started", <Time at={start} />],
            ["Ended", run.workflowRunCompletedAt && <><Time at={end} />, after {span(end - start)}</>],
            ["Labels", run.labels?.join(", ")],
            ["Flow control", run.flowControlKey],
            ["Caller", run.workflowRunCallerIp],
            ["Restart of", run.restartOf && <RunLink to={run.restartOf} />],
            ["Resumed from", run.resumeOf && <RunLink to={run.resumeOf} />],
            ["Restarted as", run.successor && <RunLink to={run.successor} />],
            ["Invoked by", run.invoker && <RunLink to={run.invoker} />],
            ["Failure function", run.failureFunction && <><Badge state={run.failureFunction.state} /> {run.failureFunction.url}</>],
          ]} />
          {run.workflowRunResponse !== undefined && (
            <>
              <h2>Result</h2>
              <Body text={run.workflowRunResponse} label="Result of the run" />
            </>
          )}
        </div>
        <ol class="steps" aria-label="Steps">
          {run.steps.map((group, i) => <Group key={i} group={group} index={i} times={times} start={start} end={end} again={again} />)}
        </ol>
      </div>
    </>
  );
}

function RunLink({ to }: { to: RunRef }) {
  return <a href={href(...runPlace(to))}>{to.workflowRunId}</a>;
}

interface GroupProps {
  group: StepGroup;
  index: number;
  again: () => Promise<void>;
  times: Map<Step, Timing>;
  start: number;
  end: number;
}

function Group({ group, times, start, end, again }: GroupProps) {
  return (
    <li class={group.steps.length > 1 ? "parallel" : undefined}>
      {group.steps.length > 1 && <p class="muted">{group.steps.length} in parallel</p>}
      <div class="branches">
        {group.steps.map((step, i) => <StepCard key={i} step={step} isNext={group.type === "next"} time={times.get(step)!} start={start} end={end} again={again} />)}
      </div>
    </li>
  );
}

interface StepProps {
  step: Step;
  isNext: boolean;
  time: Timing;
  start: number;
  end: number;
  again: () => Promise<void>;
}

function StepCard({ step, isNext, time, start, end, again }: StepProps) {
  const last = step.errors?.at(-1);
  const name = step.stepName || (isNext ? "next step" : "step");
  return (
    <article class={"step " + step.state.toLowerCase()} aria-label={`Step ${name}`}>
      <header>
        <h3>{name}</h3>
        <Badge state={step.state} />
      </header>
      <p class="muted">
        {[step.stepType, time.from !== undefined && time.to !== undefined && span(time.to - time.from),
          step.errors !== undefined && plural(step.errors.length, "failed attempt")].filter(Boolean).join(" · ")}
      </p>
      <TimeBar time={time} start={start} end={end} />
      {last !== undefined && <p class="error-text">{messageOf(last.body) || last.error}</p>}
      <Waiting step={step} again={again} />
      <details>
        <summary>Details</summary>
        <Facts of={[
          ["Message", <button class="link" onClick={() => setParams({ open: step.messageId })}><code>{step.messageId}</code></button>],
          ["Began", time.from && <Time at={time.from} />],
          ["Ended", time.done && time.to && <Time at={time.to} />],
          ["Next attempt", step.nextDeliveryTime && clock(step.nextDeliveryTime)],
          ["Calls", step.callUrl && `${step.callMethod} ${step.callUrl}`],
          ["Response", step.callResponseStatus && <Tag tone={step.callResponseStatus < 300 ? "green" : "red"}>{step.callResponseStatus}</Tag>],
          ["Invokes", step.invokedWorkflowRunId && step.invokedWorkflowCreatedAt && (
            <RunLink to={{ workflowRunId: step.invokedWorkflowRunId, workflowRunCreatedAt: step.invokedWorkflowCreatedAt }} />
          )],
        ]} />
        {step.callBody && <Labelled title="Request body"><Body text={step.callBody} label="Body of the request" /></Labelled>}
        {step.callResponseBody && <Labelled title="Response body"><Body text={step.callResponseBody} label="Body of the response" /></Labelled>}
        {step.out && <Labelled title={step.stepType === "Initial" ? "Payload" : "Result"}><Body text={step.out} label={"Result of " + name} /></Labelled>}
        {step.errors?.map((attempt, i) => (
          <Labelled key={i} title={`Attempt at ${clock(attempt.time)}: status ${attempt.status}`}>
            <Body text={attempt.body} label="Response of the workflow" />
          </Labelled>
        ))}
      </details>
    </article>
  );
}

function Labelled({ title, children }: { title: string; children: ComponentChildren }) {
  return <div><p class="muted">{title}</p>{children}</div>;
}

// TimeBar shows when within the run a step was worked on.
function TimeBar({ time, start, end }: { time: Timing; start: number; end: number }) {
  if (time.from === undefined || time.to === undefined) {
    return null;
  }
  const whole = Math.max(1, end - start);
  const left = (100 * (time.from - start)) / whole;
  const width = Math.max(1, (100 * (time.to - time.from)) / whole);
  return <div class="time-bar" aria-hidden="true"><span style={{ left: `${Math.min(99, left)}%`, width: `${Math.min(100 - left, width)}%` }} /></div>;
}

function Waiting({ step, again }: { step: Step; again: () => Promise<void> }) {
  const [change, fault] = useChange(again);
  const open = step.state === "STEP_PROGRESS" || step.state === "STEP_RETRY";
  if (!open) {
    return null;
  }
  if (step.waitEventId !== undefined) {
    return <p>Waits for <code>{step.waitEventId}</code>{step.waitTimeoutDeadline !== undefined && <> until {clock(step.waitTimeoutDeadline * 1000)}</>}</p>;
  }
  return step.nextDeliveryTime === undefined ? null : (
    <>
      <p>Continues at {clock(step.nextDeliveryTime)} <Act change={change} deed={() => runMessageNow(step.messageId)} title="Continues now instead of at its scheduled time">Run now</Act></p>
      {fault !== "" && <Fault>{fault}</Fault>}
    </>
  );
}

function Deeds({ run, again }: { run: Run; again: () => Promise<void> }) {
  const [change, fault] = useChange(again);
  const [asking, setAsking] = useState("");
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
      {asking !== "" && <Notify runId={run.workflowRunId} eventId={asking} onClose={() => { setAsking(""); void again(); }} />}
    </>
  );
}

// FailureDeed repeats the failure function of a run, or cancels it while it goes on.
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
