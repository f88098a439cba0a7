// The step of a run that is selected: what it was given, what came of it, and each attempt that
// failed.

import type { ComponentChildren } from "preact";

import { failureOf } from "../failure";
import { clock, plural, span } from "../format";
import { runMessageNow } from "../messages";
import { hrefWith } from "../router";
import type { Timing } from "../timing";
import type { Attempt, Step } from "../types";
import { Act, useChange } from "../ui/act";
import { Badge, Body, Facts, Fault, Tag, Time } from "../ui/widgets";
import { RunLink } from "./runs";
import { stepName } from "./waterfall";

interface Props {
  step: Step;
  earlier: Step[]; // those before it
  time: Timing;
  again: () => Promise<void>;
}

export function StepPanel({ step, earlier, time, again }: Props) {
  const name = stepName(step);
  return (
    <article class="panel step-panel" aria-label={`Step ${name}`}>
      <header>
        <h2>{name}</h2>
        <Badge state={step.state} />
        <p class="muted">{[step.stepType, time.from !== undefined && time.to !== undefined && span(time.to - time.from),
          step.errors !== undefined && plural(step.errors.length, "failed attempt")].filter(Boolean).join(" · ")}</p>
      </header>
      <Waiting step={step} again={again} />
      {step.errors !== undefined && step.errors.length > 0 && <Attempts of={step.errors} />}
      <Input step={step} earlier={earlier} />
      {step.callResponseBody !== undefined && (
        <Part title={<>Response <Tag tone={step.callResponseStatus! < 300 ? "green" : "orange"}>{step.callResponseStatus || "none"}</Tag></>}>
          <Body text={step.callResponseBody} label="Body of the response" />
        </Part>
      )}
      {step.out !== undefined && step.out !== "" && step.callResponseBody === undefined && (
        <Part title={step.stepType === "Initial" ? "Payload" : "Output"}><Body text={step.out} label={(step.stepType === "Initial" ? "Payload of " : "Output of ") + name} /></Part>
      )}
      <Facts of={[
        ["Message", <a href={hrefWith({ open: step.messageId })}><code>{step.messageId}</code></a>],
        ["Began", time.from && <Time at={time.from} />],
        ["Ended", time.done && time.to && <Time at={time.to} />],
        ["Next attempt", step.nextDeliveryTime && clock(step.nextDeliveryTime)],
        ["Retries", `at most ${step.retries}`],
      ]} />
    </article>
  );
}

function Part({ title, children }: { title: ComponentChildren; children: ComponentChildren }) {
  return <section><h3>{title}</h3>{children}</section>;
}

// Input shows what a step was given. A step that runs code is given nothing of its own: the
// code sees the payload and what earlier steps returned.
function Input({ step, earlier }: { step: Step; earlier: Step[] }) {
  if (step.callUrl !== undefined) {
    return (
      <Part title="Input">
        <p class="request-line"><b>{step.callMethod}</b> <span>{step.callUrl}</span></p>
        <Body text={step.callBody} label="Body of the request" />
      </Part>
    );
  }
  if (step.invokedWorkflowRunId !== undefined) {
    return (
      <Part title="Input">
        <p>Invokes {step.invokedWorkflowUrl} as <RunLink to={{ workflowRunId: step.invokedWorkflowRunId, workflowRunCreatedAt: step.invokedWorkflowCreatedAt! }} /></p>
        <Body text={step.invokedWorkflowRunBody} label="Payload of the invoked run" />
      </Part>
    );
  }
  if (step.waitEventId !== undefined || step.sleepFor || step.sleepUntil) {
    return (
      <Part title="Input">
        <Facts of={[
          ["Event", step.waitEventId],
          ["Timeout", step.waitTimeoutDuration],
          ["Sleeps for", step.sleepFor && span(step.sleepFor * 1000)],
          ["Sleeps until", step.sleepUntil && clock(step.sleepUntil * 1000)],
        ]} />
      </Part>
    );
  }
  const given = earlier.filter((one) => one.out !== undefined && one.out !== "");
  return given.length === 0 ? null : (
    <Part title="Input">
      <details>
        <summary>{given[0]!.stepType === "Initial" ? "The payload" : "No payload"}{given.length > 1 && `, and the output of ${plural(given.length - 1, "earlier step")}`}</summary>
        {given.map((one, i) => <div key={i}><p class="muted">{one.stepType === "Initial" ? "Payload" : stepName(one)}</p><Body text={one.out} label={"Output of " + stepName(one)} /></div>)}
      </details>
    </Part>
  );
}

// Attempts lists those that failed, the last first.
function Attempts({ of: attempts }: { of: Attempt[] }) {
  return (
    <Part title="Why it failed">
      <ol class="attempts">{[...attempts].reverse().map((attempt, i) => <FailedAttempt key={attempt.time} attempt={attempt} number={attempts.length - i} open={i === 0} />)}</ol>
    </Part>
  );
}

function FailedAttempt({ attempt, number, open }: { attempt: Attempt; number: number; open: boolean }) {
  const { says, stack } = failureOf(attempt.body);
  return (
    <li>
      <details open={open}>
        <summary><b>Attempt {number}</b> <Tag tone="orange">{attempt.status || "none"}</Tag> <span class="muted"><Time at={attempt.time} /></span></summary>
        <p class="error-text">{says || attempt.error}</p>
        {stack === "" ? <Body text={attempt.body} label={`Response to attempt ${number}`} /> : (
          <>
            <pre class="trace" tabIndex={0} aria-label={`Stack of attempt ${number}`}>{stack}</pre>
            <details>
              <summary class="muted">The whole response</summary>
              <Body text={attempt.body} label={`Response to attempt ${number}`} />
            </details>
          </>
        )}
      </details>
    </li>
  );
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
