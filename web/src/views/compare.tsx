// Two runs beside each other, step by step: how each ended, how long it took, and where what
// they returned differs.

import { diff } from "../diff";
import { failureOf } from "../failure";
import { moment, readableText, span } from "../format";
import { groupBy } from "../group";
import { hrefWith, setParams } from "../router";
import { timings, type RunEvent } from "../timing";
import type { Run, RunRef, Step } from "../types";
import { Badge, Facts, Time } from "../ui/widgets";
import { RunLink } from "./runs";
import { stepName } from "./waterfall";

export interface Known {
  run: Run;
  events: RunEvent[];
}

interface Side {
  step?: Step;
  took?: number;
}

interface Pair {
  name: string;
  left: Side;
  right: Side;
}

// pairs puts the steps of two runs together by their names, and of several with one name by
// their order.
export function pairs(left: Known, right: Known): Pair[] {
  const sides = [left, right].map(({ run, events }) => {
    const times = timings(run, events);
    const steps = run.steps.flatMap((group) => group.steps);
    return [...groupBy(steps, stepName)].flatMap(([name, same]) => same.map((step, i) => {
      const time = times.get(step)!;
      return { name: i === 0 ? name : `${name} (${i + 1})`, step, took: time.to! - time.from! };
    }));
  });
  const names = [...new Set(sides.flat().map((side) => side.name))];
  const find = (side: number, name: string): Side => sides[side]!.find((one) => one.name === name) ?? {};
  return names.map((name) => ({ name, left: find(0, name), right: find(1, name) }));
}

// outcome returns what a step returned, or how its last attempt failed.
function outcome({ step }: Side): string {
  const last = step?.errors?.at(-1);
  if (step?.out || last === undefined) {
    return readableText(step?.out ?? "").text;
  }
  const { says, stack } = failureOf(last.body);
  return stack || says || last.error;
}

function hasFailed({ step }: Side): boolean {
  return step?.state === "STEP_FAILED";
}

interface Props {
  left: Known;
  right: Known;
  selected: string | null; // the name of a step
}

export function Compare({ left, right, selected }: Props) {
  const all = pairs(left, right);
  const different = all.find((pair) => pair.name === selected) ?? all.find((pair) => hasFailed(pair.left) !== hasFailed(pair.right))
    ?? all.find((pair) => outcome(pair.left) !== outcome(pair.right)) ?? all[0];
  return (
    <div class="run-columns">
      <div class="panel compare-panel" tabIndex={0} role="region" aria-label="Steps of both runs">
        <table class="plain compare">
          <thead><tr><th>Step</th><th>This run</th><th>The other run</th><th>Time</th><th>Output</th></tr></thead>
          <tbody>{all.map((pair) => <Row key={pair.name} pair={pair} selected={pair === different} />)}</tbody>
        </table>
      </div>
      <article class="panel step-panel" aria-label="Differences">
        <Facts of={[["This run", <Time at={left.run.workflowRunCreatedAt} />], ["The other run", <><RunLink to={refOf(right.run)} />, <Time at={right.run.workflowRunCreatedAt} /></>]]} />
        {different !== undefined && <Difference of={different} />}
      </article>
    </div>
  );
}

function refOf(run: Run): RunRef {
  return { workflowRunId: run.workflowRunId, workflowRunCreatedAt: run.workflowRunCreatedAt };
}

function Row({ pair, selected }: { pair: Pair; selected: boolean }) {
  const { name, left, right } = pair;
  const more = left.took !== undefined && right.took !== undefined ? left.took - right.took : undefined;
  const same = outcome(left) === outcome(right);
  return (
    <tr class={selected ? "opened" : undefined}>
      <th scope="row"><a href={hrefWith({ step: name })} aria-current={selected ? "true" : undefined}>{name}</a></th>
      <td><How of={left} /></td>
      <td><How of={right} /></td>
      <td class="number">{more === undefined ? "" : more === 0 ? "same" : (more > 0 ? "+" : "−") + span(Math.abs(more))}</td>
      <td>{left.step === undefined || right.step === undefined ? "" : same ? <span class="muted">same</span> : <b>differs</b>}</td>
    </tr>
  );
}

function How({ of }: { of: Side }) {
  return of.step === undefined ? <span class="muted">not reached</span> : <><Badge state={of.step.state} /> <span class="number">{span(of.took!)}</span></>;
}

function Difference({ of }: { of: Pair }) {
  const lines = diff(outcome(of.right), outcome(of.left));
  return (
    <section>
      <h3>Output of {of.name}</h3>
      <pre class="trace diff" tabIndex={0} aria-label={"Difference in " + of.name}>
        {lines.map((line, i) => <span key={i} class={line.in}>{line.in === "both" ? "  " : line.in === "left" ? "− " : "+ "}{line.text}</span>)}
      </pre>
      <p class="muted">− the other run, + this run</p>
    </section>
  );
}

// CompareWith chooses the other run: one it descends from, or another of the same workflow.
export function CompareWith({ related, others, chosen }: { related: [string, RunRef][]; others: Run[]; chosen: string }) {
  const keyOf = (ref: RunRef) => `${ref.workflowRunId}@${ref.workflowRunCreatedAt}`;
  const known = new Set(related.map(([, ref]) => keyOf(ref)));
  return (
    <select aria-label="Compare with" value={chosen} onChange={(event) => setParams({ compare: event.currentTarget.value || undefined, step: undefined })}>
      <option value="">{chosen === "" ? "Compare with…" : "Compare with none"}</option>
      {related.map(([name, ref]) => <option key={keyOf(ref)} value={keyOf(ref)}>{name}</option>)}
      {others.filter((run) => !known.has(keyOf(run))).map((run) => <option key={keyOf(run)} value={keyOf(run)}>{run.workflowRunId}: {run.workflowState.replace("RUN_", "")}, {moment(run.workflowRunCreatedAt)}</option>)}
    </select>
  );
}
