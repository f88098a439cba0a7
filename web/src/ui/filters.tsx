// The bar of filters of a view. The address is where they are kept, under the names of
// the API, so that a view can be shared and its filters pasted into a request.

import { useState } from "preact/hooks";

import { moment, timeIn } from "../format";
import { setParams } from "../router";

export interface Filter {
  name: string; // of the parameter
  label: string;
  options?: string[];
}

interface Props {
  filters: Filter[];
  params: URLSearchParams;
  guess?: (text: string) => string | undefined; // the filter a text is for, by its look
}

// known returns those parameters of an address that are filters of a view.
export function known(filters: Filter[], params: URLSearchParams): URLSearchParams {
  const names = new Set([...filters.map((filter) => filter.name), "fromDate", "toDate", "order"]);
  return new URLSearchParams([...params].filter(([name, value]) => names.has(name) && value !== ""));
}

export function Filters({ filters, params, guess }: Props) {
  const active = filters.flatMap((filter) => params.getAll(filter.name).map((value) => ({ filter, value })));
  const add = (name: string, value: string) => {
    setParams({ [name]: [...new Set([...params.getAll(name), value])] });
  };
  const remove = (name: string, value: string) => {
    setParams({ [name]: params.getAll(name).filter((other) => other !== value) });
  };
  return (
    <div class="filters" role="search">
      <NewFilter filters={filters} guess={guess} onAdd={add} />
      <Range params={params} />
      {active.map(({ filter, value }) => (
        <button class="chip" key={filter.name + value} onClick={() => remove(filter.name, value)} title={value}
          aria-label={`Remove filter ${filter.label}: ${value}`}>
          <span><b>{filter.label}</b> {value}</span><span aria-hidden="true">×</span>
        </button>
      ))}
      {(active.length > 0 || params.has("fromDate") || params.has("toDate")) && (
        <button class="quiet" onClick={() => setParams(Object.fromEntries(
          [...filters.map((filter) => filter.name), "fromDate", "toDate"].map((name) => [name, undefined])))}>Clear</button>
      )}
    </div>
  );
}

function NewFilter({ filters, guess, onAdd }: { filters: Filter[]; guess: Props["guess"]; onAdd: (name: string, value: string) => void }) {
  const [name, setName] = useState("");
  const [text, setText] = useState("");
  const chosen = filters.find((filter) => filter.name === name);
  const apply = (value: string) => {
    value = value.trim();
    const target = name || guess?.(value) || filters[0]!.name;
    if (value !== "") {
      onAdd(target, value);
      setText("");
      setName("");
    }
  };
  return (
    <form class="new-filter" onSubmit={(event) => { event.preventDefault(); apply(text); }}>
      <select aria-label="Filter by" value={name} onChange={(event) => setName(event.currentTarget.value)}>
        <option value="">Filter by…</option>
        {filters.map((filter) => <option key={filter.name} value={filter.name}>{filter.label}</option>)}
      </select>
      {chosen?.options !== undefined ? (
        <select aria-label={chosen.label} value="" onChange={(event) => apply(event.currentTarget.value)}>
          <option value="">choose</option>
          {chosen.options.map((option) => <option key={option}>{option}</option>)}
        </select>
      ) : (
        <input class="filter-text" type="search" aria-label="Filter text" autocomplete="off" spellcheck={false} value={text}
          placeholder={chosen === undefined ? "Paste an ID or a URL" : chosen.label}
          onInput={(event) => setText(event.currentTarget.value)} />
      )}
    </form>
  );
}

const presets: [string, number][] = [
  ["5 minutes", 300_000], ["hour", 3_600_000], ["24 hours", 86_400_000], ["7 days", 7 * 86_400_000],
];

// Range chooses times between which entries are looked for. What is chosen as "the last
// hour" stays that hour: who is sent the address sees the same.
function Range({ params }: { params: URLSearchParams }) {
  const from = params.get("fromDate") ?? "";
  const to = params.get("toDate") ?? "";
  const title = from === "" && to === "" ? "Any time" : `${shown(from)} – ${to === "" ? "now" : shown(to)}`;
  const set = (name: string, text: string) => {
    setParams({ [name]: text === "" ? undefined : String(new Date(text).getTime()) });
  };
  const choose = (button: HTMLElement, times: Record<"fromDate" | "toDate", string | undefined>) => {
    const details = button.closest("details")!;
    details.open = false;
    details.querySelector("summary")!.focus();
    setParams(times);
  };
  return (
    <details class="range" onToggle={(event) => stayInside(event.currentTarget)} onKeyDown={(event) => {
      if (event.key === "Escape") {
        event.currentTarget.open = false;
        event.stopPropagation();
      }
    }}>
      <summary>{title}</summary>
      <div class="popover">
        {presets.map(([name, ms]) => (
          <button key={name} onClick={(event) => choose(event.currentTarget, { fromDate: String(Date.now() - ms), toDate: undefined })}>Last {name}</button>
        ))}
        <button onClick={(event) => choose(event.currentTarget, { fromDate: undefined, toDate: undefined })}>Any time</button>
        <label class="field"><span>From</span>
          <input type="datetime-local" step={1} value={local(from)} onChange={(event) => set("fromDate", event.currentTarget.value)} /></label>
        <label class="field"><span>To</span>
          <input type="datetime-local" step={1} value={local(to)} onChange={(event) => set("toDate", event.currentTarget.value)} /></label>
      </div>
    </details>
  );
}

// stayInside opens the choice of times to the left where there is no space on the right.
function stayInside(details: HTMLElement): void {
  const popover = details.querySelector(".popover")!;
  popover.classList.remove("leftward");
  popover.classList.toggle("leftward", popover.getBoundingClientRect().right > innerWidth);
}

// shown returns a time as people read it, or what stands there if it is none: the server
// says what is wrong with it.
function shown(text: string): string {
  const ms = timeIn(text);
  return ms === undefined ? text : moment(ms);
}

// local returns a time as an input of the browser has it.
function local(text: string): string {
  const ms = timeIn(text);
  if (ms === undefined) {
    return "";
  }
  const at = new Date(ms);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
