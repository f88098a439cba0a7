// Buttons that change something: at once, or once a dialog has been answered. Each does its
// deed once at a time, and none when it is reached by the second click of a double click.

import type { ComponentChildren } from "preact";
import { useRef, useState } from "preact/hooks";

import { explain } from "../api";
import { identity } from "../session";
import { Dialog, Fault } from "./widgets";

// Change does a deed for a view, which shows what it throws and then reads again.
export type Change = (deed: () => Promise<unknown>) => Promise<void>;

// useChange returns a Change that reads again by a function, and a sentence about the last
// deed if it failed.
export function useChange(again: () => Promise<void>): [Change, string] {
  const [fault, setFault] = useState("");
  const change: Change = async (deed) => {
    setFault("");
    try {
      await deed();
    } catch (failure) {
      setFault(explain(failure));
    }
    await again();
  };
  return [change, fault];
}

interface ActProps {
  change: Change;
  deed: () => Promise<unknown>;
  primary?: boolean;
  title?: string;
  disabled?: boolean;
  children: ComponentChildren;
}

// Act changes something at once. It is for what can be undone or does no harm; Ask is for the
// rest. It is not disabled while it works, or else it would lose the focus.
export function Act({ change, deed, primary, title, disabled, children }: ActProps) {
  const busy = useRef(false);
  const act = async (event: MouseEvent) => {
    if (busy.current || event.detail > 1) {
      return;
    }
    busy.current = true;
    await change(deed);
    busy.current = false;
  };
  return <button class={primary ? "primary" : undefined} title={title} disabled={disabled || identity().readOnly} onClick={(event) => void act(event)}>{children}</button>;
}

interface AskProps {
  change: Change;
  deed: () => Promise<unknown>;
  title: string; // what is asked, and what the button does
  submit: string; // what the button of the dialog says
  means: string; // what follows from it
  quiet?: boolean;
  label?: string; // of the button, if its text does not say enough
  children: ComponentChildren; // what the button says
}

// Ask changes something that cannot be undone, if the answer is yes.
export function Ask({ change, deed, title, submit, means, quiet, label, children }: AskProps) {
  const [asking, setAsking] = useState(false);
  const done = () => {
    setAsking(false);
    void change(async () => {});
  };
  return (
    <>
      <button class={quiet ? "quiet" : "danger"} disabled={identity().readOnly} aria-label={label} onClick={() => setAsking(true)}>{children}</button>
      {asking && <Form title={title} submit={submit} danger save={deed} done={done}><p>{means}</p></Form>}
    </>
  );
}

interface FormProps {
  title: string;
  submit: string; // what the button says
  save: () => Promise<unknown>;
  done: () => void;
  danger?: boolean;
  wide?: boolean;
  children: ComponentChildren;
}

// Form is a dialog that closes when what it is for has been done. Where that is dangerous,
// the focus is on the button that leaves all as it is.
export function Form({ title, submit, save, done, danger, wide, children }: FormProps) {
  const [fault, setFault] = useState("");
  const busy = useRef(false);
  const act = async () => {
    if (busy.current) {
      return;
    }
    busy.current = true;
    setFault("");
    try {
      await save();
      done();
    } catch (failure) {
      setFault(explain(failure));
    }
    busy.current = false;
  };
  return (
    <Dialog title={title} onClose={done} wide={wide}>
      <form onInput={() => setFault("")} onInvalid={() => setFault("")} onSubmit={(event) => { event.preventDefault(); void act(); }}>
        {children}
        {fault !== "" && <Fault>{fault}</Fault>}
        <footer>
          <button type="button" autofocus={danger} onClick={done}>{danger ? "Keep as it is" : "Cancel"}</button>
          <button class={danger ? "danger" : "primary"}>{submit}</button>
        </footer>
      </form>
    </Dialog>
  );
}
