// The signature helper: why a receiver refuses a delivery.

import { useState } from "preact/hooks";

import { explain, get } from "../api";
import { readRequest, verify, type Check } from "../signature";
import { Empty, Fault, Field, Tag } from "../ui/widgets";

export function Signature() {
  return "subtle" in crypto ? <Helper /> : (
    <section class="view">
      <h1>Signature helper</h1>
      <Empty title="This page needs https"><p>Browsers compute signatures only on pages loaded over https or from localhost. <code>posthaste verify</code> makes the same checks.</p></Empty>
    </section>
  );
}

interface Fields {
  request: string;
  token: string;
  url: string;
  body: string;
  current: string;
  next: string;
}

// Change sets some of the fields.
type Change = (to: Partial<Fields>) => void;

function Helper() {
  const [fields, setFields] = useState<Fields>({ request: "", token: "", url: "", body: "", current: "", next: "" });
  const [checks, setChecks] = useState<Check[]>([]);
  const [fault, setFault] = useState("");
  const change: Change = (to) => setFields((old) => ({ ...old, ...to }));
  const loadKeys = async () => {
    try {
      change(await get<{ current: string; next: string }>("/v2/keys"));
    } catch (error) {
      setFault(explain(error));
    }
  };
  const check = async () => {
    setFault("");
    setChecks(await verify({ ...fields, keys: [fields.current, fields.next] }));
  };
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar"><h1 id="title">Signature helper</h1><p class="muted">Find out why a receiver rejects a delivery. Everything is computed in this page; nothing is sent to a server.</p></header>
      <form class="two" onSubmit={(event) => { event.preventDefault(); void check(); }}>
        <DeliveryFields fields={fields} change={change} />
        <div class="stack">
          <Field label="Current signing key"><input autocomplete="off" value={fields.current} onInput={(event) => change({ current: event.currentTarget.value })} /></Field>
          <Field label="Next signing key"><input autocomplete="off" value={fields.next} onInput={(event) => change({ next: event.currentTarget.value })} /></Field>
          <div class="deeds">
            <button class="primary">Check</button>
            <button type="button" onClick={() => void loadKeys()}>Use this server's keys</button>
          </div>
          {fault !== "" && <Fault>{fault}</Fault>}
          {checks.length > 0 && <Checks of={checks} />}
        </div>
      </form>
    </section>
  );
}

// DeliveryFields take what arrived: as one request, or part by part.
function DeliveryFields({ fields, change }: { fields: Fields; change: Change }) {
  return (
    <div class="stack">
      <Field label="Request" hint="The raw request: request line, headers, an empty line, body. Fills in the fields below.">
        <textarea rows={8} spellcheck={false} value={fields.request}
          onInput={({ currentTarget: { value } }) => change({ request: value, ...readRequest(value) })} />
      </Field>
      {fields.request.trim() !== "" && readRequest(fields.request) === null && <Fault>This is not a delivery: the header Upstash-Signature is missing.</Fault>}
      <Field label="Upstash-Signature"><textarea rows={4} required spellcheck={false} value={fields.token} onInput={(event) => change({ token: event.currentTarget.value })} /></Field>
      <Field label="URL" hint="The destination URL as it was published."><input value={fields.url} onInput={(event) => change({ url: event.currentTarget.value })} /></Field>
      <Field label="Body"><textarea rows={5} spellcheck={false} value={fields.body} onInput={(event) => change({ body: event.currentTarget.value })} /></Field>
    </div>
  );
}

function Checks({ of: checks }: { of: Check[] }) {
  return (
    <div role="status">
      <h2>{verdict(checks)}</h2>
      <table class="plain">
        <tbody>{checks.map((one) => (
          <tr key={one.name}>
            <th scope="row">{one.name}</th>
            <td>{one.good === null ? <Tag tone="grey">UNKNOWN</Tag> : one.good ? <Tag tone="green">GOOD</Tag> : <Tag tone="red">WRONG</Tag>}</td>
            <td class="breaks">{one.says}</td>
          </tr>
        ))}</tbody>
      </table>
    </div>
  );
}

function verdict(checks: Check[]): string {
  const failed = checks.find((one) => one.good === false);
  if (failed !== undefined) {
    return `A receiver rejects it because of ${failed.name}.`;
  }
  const isSigned = checks.some((one) => one.name === "signature" && one.good);
  return isSigned ? "The signature is valid." : "The claims are valid. Give a signing key to check the signature too.";
}
