// Settings: how the console looks, who is signed in, the signing keys, and what the server keeps
// and allows.

import { useState } from "preact/hooks";

import { call, get } from "../api";
import { useAsked } from "../feed";
import { bytes, count, moment, span } from "../format";
import { href } from "../router";
import { identity, isRemembered, remember } from "../session";
import { chooseTheme, theme, themes, type Theme } from "../theme";
import type { Kept, Server, Usage } from "../types";
import { Ask, useChange } from "../ui/act";
import { Copy, Facts, Fault, Loading } from "../ui/widgets";

export function Settings() {
  const { data, error, again } = useAsked("settings", async (signal) => {
    const [server, usage] = await Promise.all([get<Server>("/v2/server", undefined, signal), get<Usage>("/v2/usage", undefined, signal)]);
    return { server, usage };
  });
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar"><h1 id="title">Settings</h1></header>
      {error !== "" && <Fault again={() => void again()}>{error}</Fault>}
      <div class="settings">
        <SignedIn />
        <SigningKeys />
        {data === undefined ? error === "" && <Loading /> : (
          <>
            <Data server={data.server} usage={data.usage} />
            <Limits of={data.server} />
          </>
        )}
      </div>
    </section>
  );
}

function Colours() {
  const [chosen, setChosen] = useState<Theme>(theme());
  const choose = (one: Theme) => {
    chooseTheme(one);
    setChosen(one);
  };
  return (
    <span class="choices" role="radiogroup" aria-label="Colours">
      {themes.map((one) => (
        <label key={one} class="choice"><input type="radio" name="theme" checked={chosen === one} onChange={() => choose(one)} /> {one[0]!.toUpperCase() + one.slice(1)}</label>
      ))}
    </span>
  );
}

function SignedIn() {
  const { user, readOnly } = identity();
  const [kept, setKept] = useState(isRemembered());
  const change = (keep: boolean) => {
    remember(keep);
    setKept(keep);
  };
  return (
    <section class="panel" aria-labelledby="signed-in">
      <h2 id="signed-in">User</h2>
      <Facts of={[["Name", user || "that of the token"], ["Access", readOnly ? "read-only" : "full"], ["Colours", <Colours />]]} />
      <label class="choice"><input type="checkbox" checked={kept} onChange={(event) => change(event.currentTarget.checked)} /> Stay signed in on this browser</label>
      <p class="muted">{kept ? "The token is stored in this browser until you sign out." : "The token is removed when the last tab of this console is closed."} Other users have tokens of their own, which the server is started with (<code>--users</code>).</p>
    </section>
  );
}

interface Keys {
  current: string;
  next: string;
}

function SigningKeys() {
  const { readOnly } = identity();
  const { data: keys, error, again } = useAsked("keys", (signal) => readOnly ? Promise.resolve(null) : get<Keys>("/v2/keys", undefined, signal));
  const [shown, setShown] = useState(false);
  const [change, fault] = useChange(again);
  return (
    <section class="panel" aria-labelledby="keys">
      <h2 id="keys">Signing keys</h2>
      <p class="muted">{readOnly ? "Read-only tokens cannot read the keys: anyone who has them can sign requests that receivers trust." : "Receivers that have both keys, as the SDKs do, accept deliveries before and after a rotation. Give them the new next key before the next one."}</p>
      {error !== "" && <Fault>{error}</Fault>}
      {keys != null && (
        <>
          <dl class="facts keys-list">
            {([["Current", keys.current], ["Next", keys.next]] as const).map(([name, key]) => (
              <div key={name}><dt>{name}</dt><dd><code>{shown ? key : "sig_••••••••" + key.slice(-4)}</code> <Copy label={`Copy the ${name.toLowerCase()} key`} text={() => key}>Copy</Copy></dd></div>
            ))}
          </dl>
          <div class="deeds">
            <button aria-pressed={shown} onClick={() => setShown(!shown)}>{shown ? "Hide" : "Show"}</button>
            <Ask change={change} deed={() => call("POST", "/v2/keys/rotate")} title="Rotate the signing keys" submit="Rotate"
              means="The next key becomes current at once, and a new next key is generated. Receivers that know only the present current key will then reject deliveries: give all of them both keys first.">Rotate…</Ask>
          </div>
          {fault !== "" && <Fault>{fault}</Fault>}
        </>
      )}
    </section>
  );
}

function Data({ server, usage }: { server: Server; usage: Usage }) {
  const { retention } = server;
  const kinds: [string, Kept, number][] = [
    ["Log entries", usage.log, retention.log], ["Runs", usage.runs, retention.runs],
    ["Dead letters", usage.deadLetters, retention.deadLetters], ["Failed runs", usage.failedRuns, retention.deadLetters],
  ];
  return (
    <section class="panel whole" aria-labelledby="data">
      <h2 id="data">Stored data</h2>
      <div class="scroll-x">
        <table class="plain">
          <thead><tr><th>Kind</th><th>Count</th><th>Oldest</th><th>Size, about</th><th>Kept for</th></tr></thead>
          <tbody>
            {kinds.map(([name, kept, age]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td data-column="Count" class="number">{count(kept.entries)}</td>
                <td data-column="Oldest">{kept.oldest === undefined ? "–" : moment(kept.oldest)}</td>
                <td data-column="Size, about" class="number">{size(kept)}</td>
                <td data-column="Kept for">{age === 0 ? "ever" : span(age)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="muted">{retention.bytes === 0 ? "The total size is not limited." : `The total size is limited to ${bytes(retention.bytes)}; above that, the oldest days are removed.`}</p>
      <h3>Log entries by day (UTC)</h3>
      <Days usage={usage} />
    </section>
  );
}

// size shows an estimate, which leaves out what was written last.
function size({ entries, bytes: estimate }: Kept): string {
  return estimate === 0 && entries > 0 ? "small" : bytes(estimate);
}

const shownDays = 14;

function Days({ usage }: { usage: Usage }) {
  const days = usage.log.days.slice(-shownDays).reverse();
  const most = Math.max(1, ...days.map((day) => day.entries));
  return (
    <table class="plain days">
      <tbody>
        {days.map((day) => (
          <tr key={day.day}>
            <th scope="row"><a href={href("/logs", { fromDate: String(Date.parse(day.day)), toDate: String(Date.parse(day.day) + 86_399_999) })}>{day.day}</a></th>
            <td><meter aria-label={`Entries of ${day.day}`} min={0} max={most} value={day.entries} /></td>
            <td class="number">{count(day.entries)}</td>
            <td class="number">{size(day)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Limits({ of: { version, limits } }: { of: Server }) {
  const some = (value: number, show: (value: number) => string) => (value === 0 ? "no limit" : show(value));
  return (
    <section class="panel whole" aria-labelledby="limits">
      <h2 id="limits">Limits in force</h2>
      <Facts of={[
        ["Body of a message", some(limits.body, bytes)],
        ["Body of a batch", some(limits.batch, bytes)],
        ["Response that is kept", some(limits.response, bytes)],
        ["Retries", some(limits.retries, count)],
        ["Delay", some(limits.delay, span)],
        ["Timeout of an attempt", some(limits.timeout, span)],
        ["Queues", some(limits.queues, count)],
        ["Parallelism of a queue", some(limits.parallelism, count)],
        ["Schedules", some(limits.schedules, count)],
        ["Version of the server", version],
      ]} />
    </section>
  );
}
