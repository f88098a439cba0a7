// The steps of a run over time: a row for each, those of a parallel group held together.

import { span } from "../format";
import { hrefWith } from "../router";
import type { Timing } from "../timing";
import type { Step, StepGroup } from "../types";
import { nameOf, toneOf } from "../ui/widgets";

interface Props {
  groups: StepGroup[];
  times: Map<Step, Timing>;
  start: number;
  end: number;
  selected: number; // index among all steps
}

export function stepName(step: Step): string {
  return step.stepName || (step.stepId === undefined ? "next step" : "step");
}

export function Waterfall({ groups, times, start, end, selected }: Props) {
  const whole = Math.max(1, end - start);
  let index = 0;
  return (
    <div class="waterfall">
      <div class="axis" aria-hidden="true"><div>{[0, 0.25, 0.5, 0.75, 1].map((part) => <span key={part}>{span(whole * part)}</span>)}</div></div>
      <ol aria-label="Steps">
        {groups.map((group, i) => (
          <li key={i} class={group.steps.length > 1 ? "parallel" : undefined}>
            {group.steps.length > 1 && <p>{group.steps.length} in parallel</p>}
            {group.steps.map((step) => <StepRow key={index} step={step} index={index} time={times.get(step)!} start={start} whole={whole} selected={index++ === selected} />)}
          </li>
        ))}
      </ol>
    </div>
  );
}

interface RowProps {
  step: Step;
  index: number;
  time: Timing;
  start: number;
  whole: number;
  selected: boolean;
}

const waiting = /^(Sleep|Wait)/;

function StepRow({ step, index, time, start, whole, selected }: RowProps) {
  const from = time.from ?? start;
  const to = time.to ?? from;
  const at = (ms: number) => `${Math.max(0, Math.min(100, (100 * (ms - start)) / whole))}%`;
  const width = `${Math.max(0, (100 * (to - from)) / whole)}%`;
  const tone = toneOf(step.state);
  return (
    <a class="step" href={hrefWith({ step: String(index) })} aria-current={selected ? "true" : undefined}>
      <span class={"mark mark-" + tone}><span aria-hidden="true">{marks[tone]}</span><span class="unseen">{nameOf(step.state).toLowerCase()}</span></span>
      <span class="step-name" title={stepName(step)}>{stepName(step)} <small>{step.stepType}</small></span>
      <span class="track" aria-hidden="true">
        <span class={`span fill-${tone}${waiting.test(step.stepType ?? "") ? " idle" : ""}`} style={{ left: at(from), width }} />
        {step.errors?.map((attempt, i) => <i key={i} style={{ left: at(attempt.time) }} />)}
      </span>
      <span class="number">{span(to - from)}</span>
    </a>
  );
}

// marks show by their shape the states that colours show.
const marks: Record<string, string> = { green: "✓", red: "✕", amber: "↻", blue: "▸", violet: "⊘", grey: "○" };
