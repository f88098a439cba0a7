// Forms by which a message is published and a run is started, for a first try and for
// whatever is quicker by hand.

import { useState } from "preact/hooks";

import { post, request } from "../api";
import { readableText } from "../format";
import { inPath, through } from "../publication";
import { go, setParams, usePlace } from "../router";
import { Form } from "./act";
import { Field } from "./widgets";

const methods = ["POST", "GET", "PUT", "PATCH", "DELETE"];

// PublishForm publishes a message, through a queue if one is named, and shows its life. The queue
// that the messages are filtered by is suggested.
export function PublishForm({ onClose }: { onClose: () => void }) {
  const [destination, setDestination] = useState("");
  const [queue, setQueue] = useState(usePlace().params.get("queueName") ?? "");
  const [method, setMethod] = useState("POST");
  const [delay, setDelay] = useState("");
  const [retries, setRetries] = useState("");
  const [body, setBody] = useState("");
  const [settings, setSettings] = useState("");
  const save = async () => {
    const headers: Record<string, string> = { ...readHeaders(settings), "Upstash-Method": method };
    for (const [name, value] of [["Upstash-Delay", delay], ["Upstash-Retries", retries]] as const) {
      if (value.trim() !== "") {
        headers[name] = value.trim();
      }
    }
    const response = await request("POST", through(queue.trim()) + inPath(destination.trim()), { headers, body });
    const made = await response.json() as { messageId: string } | { messageId: string }[];
    const all = [made].flat();
    setParams({ open: all[0]?.messageId, ...(all.length > 1 && { topicName: destination.trim() }) });
  };
  return (
    <Form title="Publish a message" submit="Publish" save={save} done={onClose}>
      <Field label="Destination" hint="A URL, or the name of a URL group."><input required value={destination} onInput={(event) => setDestination(event.currentTarget.value)} /></Field>
      <Field label="Queue" hint="Optional. A queue that does not exist is created."><input value={queue} onInput={(event) => setQueue(event.currentTarget.value)} /></Field>
      <Field label="Method">
        <select value={method} onChange={(event) => setMethod(event.currentTarget.value)}>{methods.map((one) => <option key={one}>{one}</option>)}</select>
      </Field>
      <div class="fields">
        <Field label="Delay" hint="Such as 30s, 10m or 1d12h."><input value={delay} onInput={(event) => setDelay(event.currentTarget.value)} /></Field>
        <Field label="Retries" hint="At most. Default: 3."><input type="number" min={0} value={retries} onInput={(event) => setRetries(event.currentTarget.value)} /></Field>
      </div>
      <Field label="Body"><textarea rows={4} value={body} onInput={(event) => setBody(event.currentTarget.value)} /></Field>
      <Settings text={settings} onChange={setSettings} such="Upstash-Label: first or Upstash-Timeout: 10s" />
    </Form>
  );
}

// StartForm starts a run of a workflow and shows it.
export function StartForm({ onClose }: { onClose: () => void }) {
  const [url, setURL] = useState("");
  const [payload, setPayload] = useState("{}");
  const [settings, setSettings] = useState("");
  const save = async () => {
    if (/^\s*[[{]/.test(payload) && readableText(payload).kind !== "json") {
      throw new Error("The payload begins like JSON, and is none");
    }
    const run = await post<{ workflowRunId: string; workflowCreatedAt: number }>("/v2/trigger/" + inPath(url), undefined, {
      headers: { "Content-Type": "application/json", ...readHeaders(settings) }, body: payload,
    });
    go("/runs/" + encodeURIComponent(run.workflowRunId), new URLSearchParams({ created: String(run.workflowCreatedAt) }));
  };
  return (
    <Form title="Start a run" submit="Start" save={save} done={onClose}>
      <Field label="Workflow URL" hint="The endpoint of your workflow SDK's serve function."><input type="url" required value={url} onInput={(event) => setURL(event.currentTarget.value)} /></Field>
      <Field label="Payload"><textarea rows={5} value={payload} onInput={(event) => setPayload(event.currentTarget.value)} /></Field>
      <Settings text={settings} onChange={setSettings} such="Upstash-Retries: 0 or Upstash-Delay: 10s" />
    </Form>
  );
}

function Settings({ text, onChange, such }: { text: string; onChange: (text: string) => void; such: string }) {
  return (
    <Field label="Settings" hint={`Headers, one per line, such as ${such}.`}>
      <textarea rows={3} spellcheck={false} value={text} onInput={(event) => onChange(event.currentTarget.value)} />
    </Field>
  );
}

// readHeaders reads headers that are written one a line.
function readHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const line of text.split("\n").filter((one) => one.trim() !== "")) {
    const colon = line.indexOf(":");
    if (colon < 1) {
      throw new Error(`"${line.trim()}" is not a header: write NAME: VALUE`);
    }
    headers[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
  }
  return headers;
}
