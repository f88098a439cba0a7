// What the views of queues, schedules, URL groups and flow-control keys share: a list
// that is read again after every change, and buttons that change a thing.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { explain, get } from "../api";
import { useAsked, useRepeated } from "../feed";
import { plural } from "../format";
import { identity } from "../session";
import { Dialog, Empty, Fault } from "./widgets";

// Change does something to a thing; what it throws is shown above the list.
export type Change = (deed: () => Promise<unknown>) => Promise<void>;

interface Props<T> {
  title: string;
  path: string; // of the list in the API
  columns: string[];
  one: string; // a thing, in words
  about: string; // of what the things are for, to who has none
  row: (thing: T, change: Change) => ComponentChildren[];
  nameOf: (thing: T) => string;
  form?: (done: () => void) => ComponentChildren; // to make a thing
}

const pause = 3000; // ms between two readings

export function Resources<T>({ title, path, columns, one, about, row, nameOf, form }: Props<T>) {
  const { data, error, again } = useAsked(path, (signal) => get<T[]>(path, undefined, signal));
  const [fault, setFault] = useState("");
  const [filter, setFilter] = useState("");
  const [making, setMaking] = useState(false);
  useRepeated(again, pause);
  const change: Change = async (deed) => {
    setFault("");
    try {
      await deed();
    } catch (failure) {
      setFault(explain(failure));
    }
    await again();
  };
  const shown = data?.filter((thing) => nameOf(thing).toLowerCase().includes(filter.toLowerCase()));
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar">
        <h1 id="title">{title}</h1>
        <input class="filter-text" type="search" aria-label="Filter text" placeholder="Filter by name" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
        {data !== undefined && <span class="muted">{plural(shown!.length, one)}</span>}
        <div class="actions">{form !== undefined && <button class="primary" disabled={identity().readOnly} onClick={() => setMaking(true)}>New {one}</button>}</div>
      </header>
      {error !== "" && <Fault again={() => void again()}>{error}</Fault>}
      {fault !== "" && <Fault>{fault}</Fault>}
      {data?.length === 0 && <Empty title={`There is no ${one} yet`}><p>{about}</p></Empty>}
      {shown !== undefined && shown.length > 0 && (
        <div class="scroll-x" tabIndex={0} role="region" aria-label={title}>
          <table class="plain">
            <thead><tr>{columns.map((name) => <th key={name}>{name}</th>)}<th><span class="skip">Actions</span></th></tr></thead>
            <tbody>{shown.map((thing) => <Row key={nameOf(thing)} columns={columns} cells={row(thing, change)} />)}</tbody>
          </table>
        </div>
      )}
      {making && form!(() => { setMaking(false); void again(); })}
    </section>
  );
}

// Row is a row of the table, and a card where there is little room: each cell knows its column.
function Row({ columns, cells }: { columns: string[]; cells: ComponentChildren[] }) {
  return (
    <tr>{cells.map((cell, i) => <td key={i} data-column={columns[i]} class={i === cells.length - 1 ? "buttons" : undefined}>{cell}</td>)}</tr>
  );
}

interface FormProps {
  title: string;
  submit: string; // what the button says
  save: () => Promise<unknown>;
  done: () => void;
  danger?: boolean;
  children: ComponentChildren;
}

// Form is a dialog that closes when what it is for has been done.
export function Form({ title, submit, save, done, danger, children }: FormProps) {
  const [fault, setFault] = useState("");
  const [busy, setBusy] = useState(false);
  const act = async () => {
    setBusy(true);
    setFault("");
    try {
      await save();
      done();
    } catch (failure) {
      setFault(explain(failure));
    }
    setBusy(false);
  };
  return (
    <Dialog title={title} onClose={done}>
      <form onSubmit={(event) => { event.preventDefault(); void act(); }}>
        {children}
        {fault !== "" && <Fault>{fault}</Fault>}
        <footer>
          <button type="button" onClick={done}>{danger ? "Keep as it is" : "Cancel"}</button>
          <button class={danger ? "danger" : "primary"} disabled={busy}>{submit}</button>
        </footer>
      </form>
    </Dialog>
  );
}

// Act is a button that changes something at once.
export function Act({ change, deed, children }: { change: Change; deed: () => Promise<unknown>; children: ComponentChildren }) {
  return <button disabled={identity().readOnly} onClick={() => void change(deed)}>{children}</button>;
}

interface DeleteProps {
  name: string;
  means: string; // what else goes with it
  deed: () => Promise<unknown>;
  change: Change;
}

// Delete asks before it deletes.
export function Delete({ name, means, deed, change }: DeleteProps) {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <button class="danger" disabled={identity().readOnly} aria-label={"Delete " + name} onClick={() => setAsking(true)}>Delete</button>
      {asking && (
        <Form title={"Delete " + name} submit="Delete" danger save={deed} done={() => { setAsking(false); void change(async () => {}); }}>
          <p>{means}</p>
        </Form>
      )}
    </>
  );
}
