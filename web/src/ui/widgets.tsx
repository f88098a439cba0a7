// Small parts that many views have.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { bytes, clock, fromBase64, iso, readable, readableText, shortURL, unfold } from "../format";
import type { Override } from "../sweep";
import type { Headers } from "../types";

// tones are the colours of states; a state is never shown by its colour alone.
const tones: Record<string, string> = {
  CREATED: "grey", ACTIVE: "blue", RETRY: "amber", ERROR: "orange", DELIVERED: "green", FAILED: "red",
  CANCEL_REQUESTED: "violet", CANCELLED: "violet",
  RUN_STARTED: "blue", RUN_SUCCESS: "green", RUN_FAILED: "red", RUN_CANCELED: "violet",
  STEP_PROGRESS: "blue", STEP_RETRY: "amber", STEP_SUCCESS: "green", STEP_FAILED: "red", STEP_CANCELED: "violet",
  CALLBACK_INPROGRESS: "blue", CALLBACK_SUCCESS: "green", CALLBACK_FAIL: "red", CALLBACK_CANCELED: "violet",
};

export function toneOf(state: string): string {
  return tones[state] ?? "grey";
}

// nameOf shortens a state of a run, a step or a callback to its last word.
export function nameOf(state: string): string {
  return state.replace(/^(RUN|STEP|CALLBACK)_/, "").replace("_", " ");
}

export function Badge({ state }: { state: string }) {
  return <Tag tone={toneOf(state)}>{nameOf(state)}</Tag>;
}

export function Tag({ tone, children }: { tone: string; children: ComponentChildren }) {
  return <span class={"badge " + tone}>{children}</span>;
}

export function Time({ at }: { at: number }) {
  return <time dateTime={iso(at)} title={iso(at)}>{clock(at)}</time>;
}

// Address shows a URL. On a narrow screen its host is cut before its path.
export function Address({ of }: { of: string }) {
  const text = shortURL(of);
  const slash = text.indexOf("/");
  const end = slash < 0 ? text.length : slash;
  return <span class="address" title={of}><span>{text.slice(0, end)}</span><span>{text.slice(end)}</span></span>;
}

// Mark is the mark of the program, with its name.
export function Mark() {
  return <span class="the-mark"><img src="/console/assets/icon.svg" alt="" width={24} height={24} />Posthaste</span>;
}

export function Fault({ children, again }: { children: ComponentChildren; again?: () => void }) {
  return (
    <p class="fault" role="alert">
      {children} {again !== undefined && <button onClick={again}>Try again</button>}
    </p>
  );
}

// Loading stands for what is not there yet. It is seen only if that takes a while.
export function Loading() {
  return <p class="loading" role="status">Loading…</p>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

// Copy copies a text; what it is called says what.
export function Copy({ text, label, children }: { text: () => string; label?: string; children: ComponentChildren }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await copyText(text());
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <button aria-label={done ? undefined : label} onClick={() => void copy()}>{done ? "Copied" : children}</button>;
}

// copyText copies by the clipboard, which browsers give to safe origins only, or else
// by a selection.
async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function HeaderList({ headers }: { headers: Headers | undefined }) {
  const names = Object.keys(headers ?? {}).sort();
  if (names.length === 0) {
    return <p class="muted">No headers.</p>;
  }
  return (
    <dl class="headers">
      {names.map((name) => (
        <div key={name}><dt>{name}</dt><dd>{(headers![name] ?? []).join(", ")}</dd></div>
      ))}
    </dl>
  );
}

interface BodyProps {
  text?: string;
  base64?: string;
  label: string;
}

const drawn = 100_000; // characters of a body that are drawn

// Body shows a body, decoded. It is always text, never markup.
export function Body({ text, base64, label }: BodyProps) {
  const data = base64 === undefined ? null : fromBase64(base64);
  const size = data?.length ?? new TextEncoder().encode(text ?? base64 ?? "").length;
  if (size === 0) {
    return <p class="muted">No body.</p>;
  }
  const read = data === null ? readableText(text ?? base64 ?? "") : readable(data);
  const shown = /^\s*[[{]/.test(read.text) ? unfold(read.text) : read.text; // also of JSON that is cut off
  return (
    <figure class="body">
      <figcaption>
        <span>{read.kind === "json" ? "JSON" : read.kind}, {bytes(size)}</span>
        <Copy text={() => read.text}>Copy</Copy>
      </figcaption>
      <pre tabIndex={0} aria-label={label}>{shown.slice(0, drawn)}{shown.length > drawn ? "\n…" : ""}</pre>
    </figure>
  );
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}

// Dialog is there while it is drawn. Escape closes it. What had the focus before has it again
// behind it, which only a dialog that is closed sees to.
export function Dialog({ title, onClose, children, wide }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => { // or else it would be closed when it is gone
    const dialog = element.current!;
    dialog.showModal();
    if (document.activeElement?.classList.contains("closes")) { // not where a form is to be filled in
      dialog.querySelector<HTMLElement>("form input, form select, form textarea")?.focus();
    }
    return () => dialog.close();
  }, []);
  return (
    <dialog ref={element} class={wide ? "wide-dialog" : undefined} aria-label={title}
      onCancel={(event) => { event.preventDefault(); onClose(); }}>
      <header>
        <h2>{title}</h2>
        <button class="quiet closes" aria-label="Close" onClick={onClose}>×</button>
      </header>
      {children}
    </dialog>
  );
}

interface FieldProps {
  label: string;
  hint?: string;
  children: ComponentChildren;
}

export function Field({ label, hint, children }: FieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      {children}
      {hint !== undefined && <small>{hint}</small>}
    </label>
  );
}

// Facts is a list of names and values; what has no value is left out.
export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of.filter(([, value]) => value !== undefined && value !== "" && value !== false).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}

interface OverridesProps {
  of: Override[];
  headers: Record<string, string>;
  onHeaders: (headers: Record<string, string>) => void;
}

// Overrides takes settings that replace others.
export function Overrides({ of, headers, onHeaders }: OverridesProps) {
  return (
    <div class="fields">
      {of.map(({ header, label, hint }) => (
        <Field key={header} label={label} hint={hint}>
          <input value={headers[header] ?? ""} onInput={(event) => onHeaders({ ...headers, [header]: event.currentTarget.value })} />
        </Field>
      ))}
    </div>
  );
}
