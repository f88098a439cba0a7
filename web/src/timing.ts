// When the steps of a run were worked on, from the log of its changes.

import { groupBy } from "./group";
import type { Run, Step } from "./types";

export interface RunEvent {
  time: number;
  state: string;
  stepInfo?: Step;
}

export interface Timing {
  from?: number;
  to?: number; // now, for what is not done
  done: boolean;
}

const ends = new Set(["STEP_SUCCESS", "STEP_FAILED", "STEP_CANCELED"]);

// timings returns the times of each step. One whose beginning no change shows, because
// the workflow went on to it by itself, began when the group before it ended.
export function timings(run: Run, events: RunEvent[], now = Date.now()): Map<Step, Timing> {
  const changes = groupBy(events.filter((event) => event.stepInfo !== undefined), (event) => key(event.stepInfo!));
  const times = new Map<Step, Timing>();
  let before = run.workflowRunCreatedAt;
  for (const group of run.steps) {
    let last = before;
    for (const step of group.steps) {
      const own = changes.get(key(step)) ?? [];
      const first = own[0];
      const end = own.findLast((event) => ends.has(event.state));
      const from = first?.state === "STEP_PROGRESS" ? Math.max(first.time, run.workflowRunCreatedAt) : before;
      const to = wokeAt(step, events) ?? end?.time ?? run.workflowRunCompletedAt ?? now;
      times.set(step, { from, to: Math.max(from, to), done: ends.has(step.state) });
      last = Math.max(last, to);
    }
    before = last;
  }
  return times;
}

// wokeAt returns when a sleep that is over has ended, undefined for other steps. The log has
// its end only once the workflow has done the next step, or never if that one fails. So it
// ended when it was to end, or earlier if its message was run before.
function wokeAt(step: Step, events: RunEvent[]): number | undefined {
  const due = step.sleepUntil ? step.sleepUntil * 1000 : (step.createdAt ?? 0) + (step.sleepFor ?? 0) * 1000;
  if (step.state !== "STEP_SUCCESS" || !(step.sleepUntil || step.sleepFor)) {
    return undefined;
  }
  const after = events.find((event) => event.stepInfo?.messageId === step.messageId && event.state !== "STEP_PROGRESS");
  return Math.min(due, after?.time ?? due);
}

// key identifies a step of a run: by its number, which the first has not, nor one that
// is being looked for.
function key(step: Step): string {
  return step.stepId === undefined ? "name " + (step.stepName ?? "") : String(step.stepId);
}
