// Why something does not move: what its own log says, and what the lanes say that it
// has to pass.

import { get, orNull } from "./api";
import { away, clock, host, plural, span } from "./format";
import { withoutBodies } from "./logpages";
import { messageOf } from "./saying";
import type { FlowKey, LogEntry, LogPage, Queue, Run, Step } from "./types";

// whyMessage returns sentences about what a message waits for, the nearest reason first.
export async function whyMessage(last: LogEntry, signal: AbortSignal): Promise<string[]> {
  switch (last.state) {
    case "ACTIVE":
      return [`It is moving: an attempt has been in flight for ${span(Date.now() - last.time)}${last.timeout ? `, of at most ${span(last.timeout)}` : ""}.`];
    case "CANCEL_REQUESTED":
      return ["It is being cancelled: the attempt in flight is let finish."];
    case "DELIVERED":
    case "FAILED":
    case "CANCELLED":
      return [];
  }
  const [queue, key, all, recent] = await Promise.all([
    last.queueName === undefined ? null : orNull(get<Queue>("/v2/queues/" + encodeURIComponent(last.queueName), undefined, signal)),
    last.flowControlKey === undefined ? null : orNull(get<FlowKey>("/v2/flowControl/" + encodeURIComponent(last.flowControlKey), undefined, signal)),
    get<{ parallelismMax: number; parallelismCount: number }>("/v2/globalParallelism", undefined, signal),
    get<LogPage>("/v2/logs", { host: host(last.url), count: 50, trimBody: withoutBodies }, signal),
  ]);
  const reasons = [
    ...whyTime(last),
    ...(queue === null ? [] : whyQueue(queue).map((why) => `Its queue ${queue.name} ${why}`)),
    ...(key === null ? [] : whyKey(key).map((why) => `Its flow-control key ${key.flowControlKey} ${why}`)),
  ];
  if (all.parallelismCount >= all.parallelismMax) {
    reasons.push(`All ${plural(all.parallelismMax, "slot")} of the server for attempts are taken.`);
  }
  reasons.push(...whyDestination(recent.events, host(last.url)));
  return reasons.length > 0 ? reasons : ["Nothing holds it back: it is due, and waits for its turn."];
}

function whyTime(last: LogEntry): string[] {
  if (last.nextDeliveryTime !== undefined && last.nextDeliveryTime > Date.now()) {
    const cause = last.state === "CREATED" ? "It was asked to wait" : "The last attempt failed, and the next one is due";
    return [`${cause}: ${away(last.nextDeliveryTime)}, at ${clock(last.nextDeliveryTime)}.`];
  }
  return [];
}

// whyQueue returns what a queue does to hold messages back, to be read after its name.
export function whyQueue(queue: Queue): string[] {
  if (queue.paused) {
    return ["is paused: nothing leaves it until it is resumed."];
  }
  return queue.lag > queue.parallelism
    ? [`holds ${plural(queue.lag, "message")} and lets ${queue.parallelism} through at a time, in order. One that is retried keeps its place.`]
    : [];
}

// whyKey does the same for a flow-control key.
export function whyKey(key: FlowKey): string[] {
  if (key.isPaused) {
    return ["is paused: nothing with it is sent until it is resumed."];
  }
  const reasons = [];
  if (key.parallelismMax > 0 && key.parallelismCount >= key.parallelismMax) {
    reasons.push(`lets ${key.parallelismMax} through at a time, and as many are in flight. ${plural(key.waitListSize, "message waits", "messages wait")}.`);
  }
  const windowEnds = (key.ratePeriodStart + key.ratePeriod) * 1000;
  if (key.rateMax > 0 && key.rateCount >= key.rateMax && windowEnds > Date.now()) {
    reasons.push(`lets ${key.rateMax} through in ${span(key.ratePeriod * 1000)}, and they are used up until ${clock(windowEnds)}.`);
  }
  return reasons;
}

// whyDestination tells when a host has only failed lately.
function whyDestination(entries: LogEntry[], name: string): string[] {
  const failed = entries.filter((entry) => entry.state === "ERROR");
  if (failed.length < 2 || entries.some((entry) => entry.state === "DELIVERED")) {
    return [];
  }
  return [`Its destination ${name} has not taken anything lately. The last attempt ended with: ${failed[0]!.error ?? "an error"}`];
}

// whyRun returns sentences about what a run waits for.
export function whyRun(run: Run): string[] {
  switch (run.workflowState) {
    case "RUN_SUCCESS":
      return ["It has ended with success."];
    case "RUN_CANCELED":
      return ["It was cancelled."];
    case "RUN_FAILED":
      return [...whyFailed(run), `It failed for good. ${whatFollowed(run)}`];
  }
  const waiting = run.steps.flatMap((group) => group.steps).filter((step) => step.state === "STEP_PROGRESS" || step.state === "STEP_RETRY");
  return waiting.length > 0 ? waiting.map(whyStep) : ["The workflow was told of its last result and has not answered yet."];
}

function whatFollowed(run: Run): string {
  if (run.successor !== undefined) {
    return "It was started anew.";
  }
  return run.dlqId === undefined ? "It is no longer in the DLQ, so it can only be started again." : "It waits in the DLQ to be restarted.";
}

function whyFailed(run: Run): string[] {
  const failed = run.steps.flatMap((group) => group.steps).filter((step) => step.state === "STEP_FAILED");
  return failed.map((step) => {
    const last = step.errors?.at(-1);
    const answer = last === undefined ? "" : ` The last answer had status ${last.status}: ${messageOf(last.body) || last.error}`;
    return `${step.stepName ? `Step ${step.stepName}` : "A step"} failed ${plural(step.errors?.length ?? 1, "time")}.${answer}`;
  });
}

// toldIn is how many bytes of an answer messageOf is given: an error begins with what it says.
export const toldIn = 500;

function whyStep(step: Step): string {
  const name = step.stepName ? `Step ${step.stepName}` : "The next step";
  const last = step.errors?.at(-1);
  if (step.state === "STEP_RETRY" || (last !== undefined && step.nextDeliveryTime !== undefined)) {
    const next = step.nextDeliveryTime === undefined ? "" : ` The next attempt is due ${away(step.nextDeliveryTime)}.`;
    return `${name} failed ${plural(step.errors?.length ?? 1, "time")}${last ? ` with status ${last.status}` : ""}.${next}`;
  }
  if (step.waitEventId !== undefined) {
    const until = step.waitTimeoutDeadline ? `, until ${clock(step.waitTimeoutDeadline * 1000)} at the latest` : "";
    return `${name} waits for the event ${step.waitEventId}${until}.`;
  }
  if (step.invokedWorkflowRunId !== undefined) {
    return `${name} waits for the run ${step.invokedWorkflowRunId}.`;
  }
  if (step.nextDeliveryTime !== undefined && step.nextDeliveryTime > Date.now()) {
    return `${name} sleeps: it goes on ${away(step.nextDeliveryTime)}, at ${clock(step.nextDeliveryTime)}.`;
  }
  return step.callUrl !== undefined ? `${name} has called ${step.callUrl}, which has not answered yet.` : `${name} is being carried out.`;
}
