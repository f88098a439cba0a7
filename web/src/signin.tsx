// Signing in: a token that the server knows is kept for as long as a tab is open.

import { useState } from "preact/hooks";

import { explain, get } from "./api";
import { remember, signIn, signOut } from "./session";
import { Fault, Field, Mark } from "./ui/widgets";

interface Props {
  ended: string; // why somebody is to sign in again, "" if there is nothing to say
  onDone: () => void;
}

export function SignIn({ ended, onDone }: Props) {
  const [text, setText] = useState("");
  const [stay, setStay] = useState(false);
  const [fault, setFault] = useState(ended);
  const [busy, setBusy] = useState(false);
  const submit = async () => {
    setBusy(true);
    setFault("");
    signIn(text.trim());
    try {
      await get("/v2/globalParallelism");
      remember(stay);
      onDone();
    } catch (error) {
      signOut();
      setFault(explain(error));
    }
    setBusy(false);
  };
  return (
    <main class="sign-in">
      <form onSubmit={(event) => { event.preventDefault(); void submit(); }}>
        <h1><Mark /></h1>
        <Field label="Token" hint="posthaste dev prints it at each start; posthaste serve only at the first. All tabs of this console share it until you sign out or close the last tab.">
          <input type="password" autocomplete="off" autofocus required value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </Field>
        <label class="choice"><input type="checkbox" checked={stay} onChange={(event) => setStay(event.currentTarget.checked)} /> Stay signed in on this browser</label>
        {fault !== "" && <Fault>{fault}</Fault>}
        <button class="primary" disabled={busy || text.trim() === ""}>Sign in</button>
      </form>
    </main>
  );
}
