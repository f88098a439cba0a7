// Queues: what waits in each, how wide it is, and whether it is paused.

import { useState } from "preact/hooks";

import { call, get, orNull, post } from "../api";
import { away, count, plural } from "../format";
import { href } from "../router";
import { identity } from "../session";
import type { Queue } from "../types";
import { Act, Form, type Change } from "../ui/act";
import { Delete, Resources } from "../ui/resource";
import { Field, Tag } from "../ui/widgets";

export function Queues() {
  return (
    <Resources<Queue> title="Queues" path="/v2/queues" one="queue" nameOf={(queue) => queue.name}
      about="A queue delivers its messages in order, up to its parallelism at a time. It is created here, or by the first message that is published through it."
      columns={["Queue", "State", "Lag", "Parallelism", "Changed"]}
      form={(done) => <QueueForm done={done} />}
      row={(queue, change) => [
        <a href={href("/messages", { queueName: queue.name })}>{queue.name}</a>,
        queue.paused ? <Tag tone="amber">PAUSED</Tag> : <Tag tone="green">ACTIVE</Tag>,
        <span class="number">{count(queue.lag)}</span>,
        <span class="number">{queue.parallelism}</span>,
        away(queue.updatedAt),
        <Buttons queue={queue} change={change} />,
      ]} />
  );
}

function Buttons({ queue, change }: { queue: Queue; change: Change }) {
  const [editing, setEditing] = useState(false);
  const path = "/v2/queues/" + encodeURIComponent(queue.name);
  return (
    <>
      {queue.paused
        ? <Act change={change} deed={() => post(path + "/resume")}>Resume</Act>
        : <Act change={change} deed={() => post(path + "/pause")}>Pause</Act>}
      <button disabled={identity().readOnly} onClick={() => setEditing(true)}>Edit</button>
      <Delete name={queue.name} change={change} means={queue.lag === 0 ? "It is empty." : `${plural(queue.lag, "waiting message is", "waiting messages are")} cancelled.`} deed={() => call("DELETE", path)} />
      {editing && <QueueForm queue={queue} done={() => { setEditing(false); void change(async () => {}); }} />}
    </>
  );
}

function QueueForm({ queue, done }: { queue?: Queue; done: () => void }) {
  const [name, setName] = useState(queue?.name ?? "");
  const [parallelism, setParallelism] = useState(String(queue?.parallelism ?? 1));
  const save = async () => {
    const other = queue === undefined ? await orNull(get<Queue>("/v2/queues/" + encodeURIComponent(name))) : null;
    if (other !== null) {
      throw new Error(`Queue "${name}" already exists, with parallelism ${other.parallelism}: edit it, or choose another name.`);
    }
    await post("/v2/queues", { queueName: name, parallelism: Number(parallelism) });
  };
  return (
    <Form title={queue === undefined ? "New queue" : "Queue " + queue.name} submit="Save" done={done} save={save}>
      {queue === undefined && <Field label="Name"><input required value={name} onInput={(event) => setName(event.currentTarget.value)} /></Field>}
      <Field label="Parallelism" hint="Maximum number of messages delivered at a time.">
        <input type="number" min={1} required value={parallelism} onInput={(event) => setParallelism(event.currentTarget.value)} />
      </Field>
    </Form>
  );
}
