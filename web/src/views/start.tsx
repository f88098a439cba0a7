// The first steps of an app with this server: its environment, code that publishes and receives,
// and a test message that is watched until it arrives.

import { useEffect, useRef, useState } from "preact/hooks";

import { get, request } from "../api";
import { useAsked, useRepeated } from "../feed";
import { span } from "../format";
import { withoutBodies } from "../logpages";
import { inPath } from "../publication";
import { hrefWith } from "../router";
import { hasEnded, readRows, type MessageRow } from "../rows";
import { identity, token } from "../session";
import { environment, snippets } from "../snippets";
import type { LogPage } from "../types";
import { Act, useChange } from "../ui/act";
import { Copy, Fault, Field } from "../ui/widgets";

export function Start() {
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar"><h1 id="title">Connect an app</h1></header>
      <Steps />
    </section>
  );
}

// Steps are the first steps, in their order.
export function Steps() {
  return (
    <ol class="first-steps">
      <li class="panel"><h2>Set the environment of your app</h2><Environment /></li>
      <li class="panel"><h2>Publish a message and receive it</h2><p class="muted">Replace the URL by one that your app serves.</p><Code /></li>
      <li class="panel"><h2>See it arrive</h2><Arrival /></li>
    </ol>
  );
}

function Environment() {
  const { data: keys } = useAsked("keys", (signal) => identity().readOnly ? Promise.resolve(null) : get<{ current: string; next: string }>("/v2/keys", undefined, signal));
  const [shown, setShown] = useState(false);
  const lines = environment({ url: location.origin, token: token(), current: keys?.current, next: keys?.next });
  return (
    <>
      <p class="muted">The QStash SDKs use these variables: an app that has them uses this server, without code changes.</p>
      <div class="code-block">
        <header>
          <span>.env</span>
          <button class="quiet" aria-pressed={shown} onClick={() => setShown(!shown)}>{shown ? "Hide secrets" : "Show secrets"}</button>
          <Copy text={() => lines.map((line) => line.join("=") + "\n").join("")}>Copy all</Copy>
          <Copy text={() => lines.map((line) => `export ${line.join("=")}\n`).join("")}>Copy for a shell</Copy>
        </header>
        <ul>
          {lines.map(([name, value], i) => (
            <li key={name}><code>{name}={i === 0 || shown ? value : "••••••••" + value.slice(-4)}</code><Copy label={"Copy value of " + name} text={() => value}>Copy value</Copy></li>
          ))}
        </ul>
      </div>
      {identity().readOnly && <p class="muted">Your token is read-only: it cannot publish or read the signing keys.</p>}
    </>
  );
}

function Code() {
  const [name, setName] = useState(snippets[0]!.name);
  const chosen = snippets.find((one) => one.name === name)!;
  return (
    <>
      <div class="tabs" role="tablist" aria-label="Language">
        {snippets.map((one) => (
          <button key={one.name} role="tab" id={"tab-" + one.name} aria-selected={one.name === name} aria-controls="snippet" onClick={() => setName(one.name)}>{one.name}</button>
        ))}
      </div>
      <div id="snippet" role="tabpanel" aria-labelledby={"tab-" + name}>
        {chosen.install !== "" && <Block title="Install" code={chosen.install} />}
        <Block title="Publish" code={chosen.publish} />
        {chosen.receive !== "" && <Block title="Receive, and check the signature" code={chosen.receive} />}
      </div>
    </>
  );
}

function Block({ title, code }: { title: string; code: string }) {
  return (
    <div class="code-block">
      <header><span>{title}</span><Copy label={`Copy: ${title}`} text={() => code}>Copy</Copy></header>
      <pre tabIndex={0} aria-label={title}>{code}</pre>
    </div>
  );
}

const pause = 700; // ms between two looks

// Arrival shows the newest message since the page was opened, from any publisher.
function Arrival() {
  const before = useRef<string>(undefined); // the newest message when the page was opened
  const { data, again } = useAsked("arrival", async (signal): Promise<{ row?: MessageRow }> => {
    const page = await get<LogPage>("/v2/logs", { state: "CREATED", count: 1, trimBody: withoutBodies }, signal);
    const newest = page.events[0]?.messageId ?? "";
    before.current ??= newest;
    return newest === before.current ? {} : { row: (await readRows([newest], signal))[0] };
  });
  useRepeated(again, pause);
  const [destination, setDestination] = useState(location.origin + "/healthz");
  const [change, fault] = useChange(again);
  const send = () => request("POST", "/v2/publish/" + inPath(destination.trim()), { headers: { "Upstash-Method": destination.endsWith("/healthz") ? "GET" : "POST", "Upstash-Retries": "0", "Upstash-Label": "test" }, body: "Hello from Posthaste" });
  return (
    <>
      <div class="arrival">
        <Field label="Destination of a test message" hint="This server's own /healthz, or a URL of your app.">
          <input type="url" spellcheck={false} value={destination} onInput={(event) => setDestination(event.currentTarget.value)} />
        </Field>
        <Act primary change={change} deed={send}>Send a test message</Act>
      </div>
      {fault !== "" && <Fault>{fault}</Fault>}
      <Ticks row={data?.row} />
    </>
  );
}

function Ticks({ row }: { row: MessageRow | undefined }) {
  const isOver = row !== undefined && hasEnded(row.state);
  const ticks: [boolean, string][] = [
    [row !== undefined, row === undefined ? "Waiting for a message, from the button above or from your app…" : `Accepted: ${row.id}`],
    [row !== undefined && row.attempts > 0, row !== undefined && row.attempts > 1 ? `Attempted ${row.attempts} times` : "Attempted"],
    [row?.state === "DELIVERED", row?.state === "DELIVERED" ? `Delivered after ${span(row.took!)}` : isOver ? `Not delivered: ${row.why}` : "Delivered"],
  ];
  const list = useRef<HTMLUListElement>(null);
  useEffect(() => {
    if (row !== undefined) {
      list.current!.scrollIntoView({ block: "nearest" });
    }
  }, [row?.id]);
  return (
    <>
      <div role="status"><ul class="ticks" ref={list}>
        {ticks.map(([done, text], i) => <li key={i} class={done ? "done" : isOver ? "missed" : undefined}><span aria-hidden="true">{done ? "✓" : isOver ? "✕" : "○"}</span> {text}</li>)}
      </ul></div>
      {row !== undefined && <p><a href={hrefWith({ open: row.id })}>Show its life</a></p>}
    </>
  );
}
