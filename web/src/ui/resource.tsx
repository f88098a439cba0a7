// What the views of queues, schedules, URL groups and flow-control keys share: a list
// that is read again after every change.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { get } from "../api";
import { useAsked, useRepeated } from "../feed";
import { plural } from "../format";
import { identity } from "../session";
import { Ask, useChange, type Change } from "./act";
import { Empty, Fault, Loading } from "./widgets";

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
  const [filter, setFilter] = useState("");
  const [making, setMaking] = useState(false);
  const [change, fault] = useChange(again);
  useRepeated(again, pause);
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
      {data === undefined && error === "" && <Loading />}
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

// Row is a row of the table, and a card on a narrow screen: each cell knows its column.
function Row({ columns, cells }: { columns: string[]; cells: ComponentChildren[] }) {
  return (
    <tr>{cells.map((cell, i) => <td key={i} data-column={columns[i]} class={i === cells.length - 1 ? "buttons" : undefined}>{cell}</td>)}</tr>
  );
}

interface DeleteProps {
  name: string;
  means: string; // what else goes with it
  deed: () => Promise<unknown>;
  change: Change;
}

// Delete asks before it deletes a thing.
export function Delete({ name, ...rest }: DeleteProps) {
  return <Ask {...rest} title={"Delete " + name} submit="Delete" label={"Delete " + name}>Delete</Ask>;
}
