// The signature helper: why a receiver refuses a delivery.

import { useState } from "preact/hooks";

import { explain, get } from "../api";
import { readRequest, verify, type Check } from "../signature";
import { Empty, Fault, Field, Tag } from "../ui/widgets";

export function Signature() {
  const [request, setRequest] = useState("");
  const [token, setToken] = useState("");
  const [url, setURL] = useState("");
  const [body, setBody] = useState("");
  const [current, setCurrent] = useState("");
  const [next, setNext] = useState("");
  const [checks, setChecks] = useState<Check[]>([]);
  const [fault, setFault] = useState("");
  if (!("subtle" in crypto)) {
    return (
      <section class="view">
        <h1>Signature helper</h1>
        <Empty title="This page was not loaded safely"><p>Browsers compute signatures only on pages of https or of this machine. <code>posthaste verify</code> does the same.</p></Empty>
      </section>
    );
  }
  const paste = (text: string) => {
    setRequest(text);
    const read = readRequest(text);
    if (read !== null) {
      setToken(read.token);
      setURL(read.url);
      setBody(read.body);
    }
  };
  const loadKeys = async () => {
    try {
      const keys = await get<{ current: string; next: string }>("/v2/keys");
      setCurrent(keys.current);
      setNext(keys.next);
    } catch (error) {
      setFault(explain(error));
    }
  };
  const check = async () => {
    setFault("");
    setChecks(await verify({ token, url, body, keys: [current, next] }));
  };
  const failed = checks.find((one) => one.good === false);
  return (
    <section class="view scrolls" aria-labelledby="title">
      <header class="bar"><h1 id="title">Signature helper</h1><p class="muted">Why does a receiver refuse a delivery? Everything is computed in this page, and nothing of it is sent.</p></header>
      <form class="two" onSubmit={(event) => { event.preventDefault(); void check(); }}>
        <div class="stack">
          <Field label="Request" hint="As it arrived: first line, headers, an empty line, body. It fills in the fields below.">
            <textarea rows={8} spellcheck={false} value={request} onInput={(event) => paste(event.currentTarget.value)} />
          </Field>
          <Field label="Upstash-Signature"><textarea rows={4} required spellcheck={false} value={token} onInput={(event) => setToken(event.currentTarget.value)} /></Field>
          <Field label="URL" hint="Where it was delivered to, as the server knows it."><input value={url} onInput={(event) => setURL(event.currentTarget.value)} /></Field>
          <Field label="Body"><textarea rows={5} spellcheck={false} value={body} onInput={(event) => setBody(event.currentTarget.value)} /></Field>
        </div>
        <div class="stack">
          <Field label="Current signing key"><input autocomplete="off" value={current} onInput={(event) => setCurrent(event.currentTarget.value)} /></Field>
          <Field label="Next signing key"><input autocomplete="off" value={next} onInput={(event) => setNext(event.currentTarget.value)} /></Field>
          <div class="deeds">
            <button class="primary">Check</button>
            <button type="button" onClick={() => void loadKeys()}>Use the keys of this server</button>
          </div>
          {fault !== "" && <Fault>{fault}</Fault>}
          {checks.length > 0 && (
            <div role="status">
              <h2>{failed === undefined ? "The signature is good." : `A receiver refuses it because of ${failed.name}.`}</h2>
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
          )}
        </div>
      </form>
    </section>
  );
}
