// Flow-control keys: what waits for each, what its limits are, and whether they are
// pinned or it is paused.

import { useState } from "preact/hooks";

import { call, post } from "../api";
import { clock, count, span } from "../format";
import { href } from "../router";
import { identity } from "../session";
import type { FlowKey } from "../types";
import { Act, Form, type Change } from "../ui/act";
import { Resources } from "../ui/resource";
import { Field, Tag } from "../ui/widgets";

export function FlowKeys() {
  return (
    <Resources<FlowKey> title="Flow-control keys" path="/v2/flowControl" one="key" nameOf={(key) => key.flowControlKey}
      about="A flow-control key limits how many of its messages are in flight, or are sent per period. The first message with the header Upstash-Flow-Control-Key creates it; Upstash-Flow-Control-Value has its limits, such as parallelism=5 or rate=10,period=1m."
      columns={["Key", "State", "Waiting", "In flight", "Rate"]}
      row={(key, change) => [
        <a href={href("/messages", { flowControlKey: key.flowControlKey })}>{key.flowControlKey}</a>,
        key.isPaused ? <Tag tone="amber">PAUSED</Tag> : <Tag tone="green">ACTIVE</Tag>,
        <span class="number">{count(key.waitListSize)}</span>,
        <Parallelism of={key} />,
        <Rate of={key} />,
        <Buttons of={key} change={change} />,
      ]} />
  );
}

function Parallelism({ of }: { of: FlowKey }) {
  return <span class="number">{of.parallelismCount}{of.parallelismMax > 0 && ` of ${of.parallelismMax}`} {of.isPinnedParallelism && <Tag tone="blue">PINNED</Tag>}</span>;
}

function Rate({ of }: { of: FlowKey }) {
  if (of.rateMax === 0) {
    return <span class="muted">no limit</span>;
  }
  const ends = (of.ratePeriodStart + of.ratePeriod) * 1000;
  return (
    <span class="number">
      {of.rateCount} of {of.rateMax} in {span(of.ratePeriod * 1000)}{ends > Date.now() && ` until ${clock(ends)}`} {of.isPinnedRate && <Tag tone="blue">PINNED</Tag>}
    </span>
  );
}

function Buttons({ of, change }: { of: FlowKey; change: Change }) {
  const [editing, setEditing] = useState(false);
  const path = "/v2/flowControl/" + encodeURIComponent(of.flowControlKey);
  return (
    <>
      {of.isPaused
        ? <Act change={change} deed={() => post(path + "/resume")}>Resume</Act>
        : <Act change={change} deed={() => post(path + "/pause")}>Pause</Act>}
      <button disabled={identity().readOnly} onClick={() => setEditing(true)}>Pin</button>
      {(of.isPinnedParallelism || of.isPinnedRate) && (
        <Act change={change} deed={() => call("POST", path + "/unpin", { query: { parallelism: of.isPinnedParallelism, rate: of.isPinnedRate } })}>Unpin</Act>
      )}
      {of.rateMax > 0 && <Act change={change} deed={() => post(path + "/resetRate")}>Reset rate</Act>}
      {editing && <PinForm of={of} path={path} done={() => { setEditing(false); void change(async () => {}); }} />}
    </>
  );
}

function PinForm({ of, path, done }: { of: FlowKey; path: string; done: () => void }) {
  const start = (n: number) => (n > 0 ? String(n) : "");
  const [parallelism, setParallelism] = useState(start(of.parallelismMax));
  const [rate, setRate] = useState(start(of.rateMax));
  const [period, setPeriod] = useState(start(of.ratePeriod));
  const field = (label: string, hint: string, value: string, set: (value: string) => void) => (
    <Field label={label} hint={hint}><input type="number" min={1} value={value} onInput={(event) => set(event.currentTarget.value)} /></Field>
  );
  return (
    <Form title={"Pin " + of.flowControlKey} submit="Pin" done={done} save={() => call("POST", path + "/pin", { query: { parallelism, rate, period } })}>
      <p>Pinned limits override the limits that messages carry.</p>
      {field("Parallelism", "Maximum number in flight. Empty: unchanged.", parallelism, setParallelism)}
      {field("Rate", "Maximum number started per period.", rate, setRate)}
      {field("Period", "Length of the period, in seconds.", period, setPeriod)}
    </Form>
  );
}
