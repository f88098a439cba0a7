// A message as a request that publishes it: to send it again, and to copy it as curl.

import { get, request } from "./api";
import { fromBase64 } from "./format";
import type { Headers, LogEntry, LogPage, Run } from "./types";

export interface Publication {
  path: string;
  headers: [string, string][];
  body: Uint8Array<ArrayBuffer>;
}

// mark is what a redacted body or header begins with.
export const mark = "REDACTED:";

// refusal says why a message cannot be published again as it was, "" if it can.
export function refusal(entry: LogEntry): string {
  return entry.workflowRunId !== undefined ? "it is a step of a workflow run: restart the run instead" : missing(entry);
}

// missing says what of a message the log does not show, "" if it shows all.
function missing(entry: LogEntry): string {
  if (entry.body.startsWith(mark)) {
    return "its body is redacted";
  }
  for (const [name, values] of headersOf(entry)) {
    if (values.some((value) => value.startsWith(mark))) {
      return `its header ${name} is redacted`;
    }
    if (values.some((value) => headerText(value) === null)) {
      return `its header ${name} is not UTF-8, and the console sends headers as UTF-8`;
    }
  }
  return "";
}

// headerText returns the text of a header value, which the log shows with one character for
// each byte, as fetch does; null if the bytes are not UTF-8.
function headerText(value: string): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(value, (c) => c.charCodeAt(0)));
  } catch {
    return null;
  }
}

// unsendable says what of a message a browser cannot send as it was, "" if it can send all.
export function unsendable(entry: LogEntry): string {
  const several = headersOf(entry).find(([, values]) => values.length > 1);
  return several === undefined ? "" : `its header ${several[0]} has several values, which a browser would merge into one; copy it as curl instead`;
}

// headersOf returns the headers of a message and of its callbacks, under the names that
// publish them.
function headersOf(entry: LogEntry): [string, string[]][] {
  return [
    ...Object.entries(entry.header).map(([name, values]): [string, string[]] => [name === "Content-Type" ? name : "Upstash-Forward-" + name, values]),
    ...callbackHeadersOf("Callback", entry.callbackHeaders),
    ...callbackHeadersOf("Failure-Callback", entry.failureCallbackHeaders),
  ];
}

// callbackHeadersOf returns those of one callback: the log has settings under their whole
// names, and what is forwarded under its own.
function callbackHeadersOf(family: string, headers: Headers | undefined): [string, string[]][] {
  const isSetting = new RegExp(`^(Upstash|Service)-${family}-`, "i");
  return Object.entries(headers ?? {}).map(([name, values]) => [isSetting.test(name) ? name : `Upstash-${family}-Forward-${name}`, values]);
}

// publicationOf returns the request. A message of a URL group goes to its own endpoint
// alone, and the schedule of a message is left out.
export function publicationOf(entry: LogEntry): Publication {
  const headers: [string, string][] = [["Upstash-Method", entry.method], ["Upstash-Retries", String(entry.maxRetries)]];
  const set = (name: string, value: string | undefined) => value !== undefined && value !== "" && headers.push([name, value]);
  set("Upstash-Retry-Delay", entry.retryDelayExpression);
  set("Upstash-Timeout", entry.timeout === undefined ? undefined : entry.timeout / 1000 + "s");
  set("Upstash-Label", entry.labels?.join(","));
  set("Upstash-Callback", entry.callback);
  set("Upstash-Failure-Callback", entry.failureCallback);
  set("Upstash-Flow-Control-Key", entry.flowControlKey);
  set("Upstash-Flow-Control-Value", flowValue(entry));
  headers.push(...headersOf(entry).flatMap(([name, values]) => values.map((value): [string, string] => [name, headerText(value) ?? value])));
  return { path: through(entry.queueName ?? "") + inPath(entry.url), headers, body: fromBase64(entry.body) ?? new Uint8Array() };
}

// through returns what is before the destination in a path: of a queue, or "" for none.
export function through(queue: string): string {
  return queue === "" ? "/v2/publish/" : `/v2/enqueue/${encodeURIComponent(queue)}/`;
}

// inPath returns a destination for a path. A URL that clients might send as another one, or
// that has parameters with names of the server's own, is escaped as a whole, which the server
// undoes.
export function inPath(url: string): string {
  const plain = /^https?:\/\/[\w.-]+(:\d+)?(\/[\w~-][\w.~-]*)*\/?(\?[\w.~=&-]+)?$/.test(url) && !/[?&](upstash|service|qstash)/i.test(url);
  return plain ? url : encodeURIComponent(url);
}

// startAgain starts a run as one that has ended was started: with the payload, the headers
// and the settings of its first message. It is for runs that are not in the DLQ, which the
// API has no restart for. A failure function with a URL of its own is not in the log; the new
// run has that of its workflow. Settings and a payload that are given are in place of its own.
export async function startAgain(run: Run, settings: Record<string, string> = {}, payload?: string): Promise<{ workflowRunId: string; workflowCreatedAt: number }> {
  const messageId = run.steps[0]?.steps[0]?.messageId;
  const page = await get<LogPage>("/v2/logs", { messageId, state: "CREATED", order: "earliestFirst", count: 1 });
  const first = page.events[0];
  const cannot = first === undefined ? "the log no longer contains its first message" : missing(first) || unsendable(first);
  if (cannot !== "") {
    throw new Error(`It cannot be started again here: ${cannot}.`);
  }
  const { headers, body } = publicationOf(first!);
  const own = headers.filter(([name]) => !/^Upstash-(Method|Forward-Upstash-.*)$/i.test(name));
  if (first!.queueName !== undefined) {
    own.push(["Upstash-Queue-Name", first!.queueName]);
  }
  const kept = own.filter(([name]) => !(name in settings)).concat(Object.entries(settings));
  const sent = payload === undefined ? body : new TextEncoder().encode(payload);
  const response = await request("POST", "/v2/trigger/" + inPath(run.workflowUrl), { headers: kept, body: sent });
  return response.json();
}

type Limits = Pick<LogEntry, "flowControlKey" | "parallelism" | "rate" | "period">;

// flowValue returns the value of the header that sets limits of a flow-control key.
export function flowValue(limits: Limits): string | undefined {
  if (limits.flowControlKey === undefined) {
    return undefined;
  }
  const parts = [];
  if (limits.parallelism) {
    parts.push(`parallelism=${limits.parallelism}`);
  }
  if (limits.rate) {
    parts.push(`rate=${limits.rate}`, `period=${limits.period ?? 1}s`);
  }
  return parts.join(",");
}

// publish sends the request and returns the id of the new message.
export async function publish({ path, headers, body }: Publication): Promise<string> {
  const response = await request("POST", path, { headers, body });
  return (await response.json()).messageId;
}

// curl returns the request for a shell. The token is left to the environment.
export function curl(publication: Publication): string {
  const { path, headers, body } = publication;
  const lines = [`curl -g --path-as-is -X POST ${quote(location.origin + path)}`, `-H "Authorization: Bearer $QSTASH_TOKEN"`];
  for (const [name, value] of headers) {
    lines.push("-H " + quote(value === "" ? name + ";" : `${name}: ${value}`));
  }
  if (body.length > 0) {
    if (!headers.some(([name]) => name === "Content-Type")) {
      lines.push("-H 'Content-Type:'"); // or else curl gives it one
    }
    lines.push(data(body));
  }
  return lines.join(" \\\n  ");
}

const longest = 100_000; // bytes of an argument; the least that systems allow is 128 KiB

// data returns the option for a body; what is no text, or too much of it, is piped in by
// the shell.
function data(body: Uint8Array): string {
  const text = textOf(body);
  if (text !== null && body.length <= longest) {
    return "--data-raw " + quote(text);
  }
  const base64 = btoa(Array.from(body, (byte) => String.fromCharCode(byte)).join(""));
  return `--data-binary @<(base64 -d <<<${base64})`;
}

// textOf returns a body as text that a shell can have as an argument, null if it is none.
function textOf(body: Uint8Array): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

function quote(text: string): string {
  return "'" + text.replaceAll("'", `'\\''`) + "'";
}
