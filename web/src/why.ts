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
      return [`An attempt has been in flight for ${span(Date.now() - last.time)}${last.timeout ? ` (timeout: ${span(last.timeout)})` : ""}.`];
    case "CANCEL_REQUESTED":
      return ["It is being cancelled: the attempt in flight is allowed to finish."];
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
    reasons.push(`The server's ${plural(all.parallelismMax, "attempt slot")} are all in use.`);
  }
  reasons.push(...whyDestination(recent.events, host(last.url)));
  return reasons.length > 0 ? reasons : ["Nothing blocks it: it is due and will be attempted shortly."];
}

function whyTime(last: LogEntry): string[] {
  if (last.nextDeliveryTime !== undefined && last.nextDeliveryTime > Date.now()) {
    const cause = last.state === "CREATED" ? "It was published with a delay and is due" : "The last attempt failed; the next one is due";
    return [`${cause} ${away(last.nextDeliveryTime)}, at ${clock(last.nextDeliveryTime)}.`];
  }
  return [];
}

// whyQueue returns what a queue does to hold messages back, to be read after its name.
export function whyQueue(queue: Queue): string[] {
  if (queue.paused) {
    return ["is paused: it delivers nothing until it is resumed."];
  }
  return queue.lag > queue.parallelism
    ? [`has ${plural(queue.lag, "waiting message")} and delivers ${queue.parallelism} at a time, in order. A message that is retried keeps its place.`]
    : [];
}

// whyKey does the same for a flow-control key.
export function whyKey(key: FlowKey): string[] {
  if (key.isPaused) {
    return ["is paused: its messages are not delivered until it is resumed."];
  }
  const reasons = [];
  if (key.parallelismMax > 0 && key.parallelismCount >= key.parallelismMax) {
    reasons.push(`allows ${key.parallelismMax} in flight, and all are in use. ${plural(key.waitListSize, "message waits", "messages wait")}.`);
  }
  const windowEnds = (key.ratePeriodStart + key.ratePeriod) * 1000;
  if (key.rateMax > 0 && key.rateCount >= key.rateMax && windowEnds > Date.now()) {
    reasons.push(`allows ${key.rateMax} per ${span(key.ratePeriod * 1000)}; the limit is reached until ${clock(windowEnds)}.`);
  }
  return reasons;
}

// whyDestination says so when a host has only failed lately.
function whyDestination(entries: LogEntry[], name: string): string[] {
  const failed = entries.filter((entry) => entry.state === "ERROR");
  if (failed.length < 2 || entries.some((entry) => entry.state === "DELIVERED")) {
    return [];
  }
  return [`Recent attempts to its destination ${name} have all failed. The last error: ${failed[0]!.error ?? "an error"}`];
}

// whyRun returns sentences about what a run waits for.
export function whyRun(run: Run): string[] {
  switch (run.workflowState) {
    case "RUN_SUCCESS":
      return ["It succeeded."];
    case "RUN_CANCELED":
      return ["It was cancelled."];
    case "RUN_FAILED":
      return [...whyFailed(run), `It failed for good. ${whatFollowed(run)}`];
  }
  const waiting = run.steps.flatMap((group) => group.steps).filter((step) => step.state === "STEP_PROGRESS" || step.state === "STEP_RETRY");
  return waiting.length > 0 ? waiting.map(whyStep) : ["The workflow was called with its last result and has not responded yet."];
}

function whatFollowed(run: Run): string {
  if (run.successor !== undefined) {
    return "It was restarted.";
  }
  return run.dlqId === undefined ? "It is no longer in the DLQ; it can only be started again from its payload." : "It is in the DLQ and can be restarted.";
}

function whyFailed(run: Run): string[] {
  const failed = run.steps.flatMap((group) => group.steps).filter((step) => step.state === "STEP_FAILED");
  return failed.map((step) => {
    const last = step.errors?.at(-1);
    const answer = last === undefined ? "" : ` The last response had status ${last.status}: ${messageOf(last.body) || last.error}`;
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
    return `${name} is sleeping: it continues ${away(step.nextDeliveryTime)}, at ${clock(step.nextDeliveryTime)}.`;
  }
  return step.callUrl !== undefined ? `${name} has called ${step.callUrl} and is waiting for the response.` : `${name} is running.`;
}
