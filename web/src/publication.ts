// A message as a request that publishes it: to send it again, and to copy it as curl.

import { request } from "./api";
import { fromBase64 } from "./format";
import type { LogEntry } from "./types";

export interface Publication {
  path: string;
  headers: [string, string][];
  body: Uint8Array<ArrayBuffer>;
}

// mark is what a redacted body or header begins with.
export const mark = "REDACTED:";

// refusal says why a message cannot be published again as it was, "" if it can.
export function refusal(entry: LogEntry): string {
  if (entry.workflowRunId !== undefined) {
    return "it is a step of a workflow run: restart the run instead";
  }
  if (entry.body.startsWith(mark)) {
    return "its body is redacted";
  }
  const redacted = Object.entries(entry.header).find(([, values]) => values.some((value) => value.startsWith(mark)));
  return redacted === undefined ? "" : `its header ${redacted[0]} is redacted`;
}

// publicationOf returns the request. A message of a URL group goes to its own endpoint
// alone, and a schedule is not told.
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
  for (const [name, values] of Object.entries(entry.header)) {
    for (const value of values) {
      headers.push([name === "Content-Type" ? name : "Upstash-Forward-" + name, value]);
    }
  }
  const through = entry.queueName === undefined ? "/v2/publish/" : `/v2/enqueue/${encodeURIComponent(entry.queueName)}/`;
  return { path: through + entry.url, headers, body: fromBase64(entry.body) ?? new Uint8Array() };
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
export async function publish(publication: Publication): Promise<string> {
  const headers = new Headers();
  for (const [name, value] of publication.headers) {
    headers.append(name, value);
  }
  const response = await request("POST", publication.path, { headers: Object.fromEntries(headers), body: publication.body });
  return (await response.json()).messageId;
}

// curl returns the request for a shell. The token is left to the environment.
export function curl(publication: Publication): string {
  const lines = [`curl -X POST ${quote(location.origin + publication.path)}`, `-H "Authorization: Bearer $QSTASH_TOKEN"`];
  for (const [name, value] of publication.headers) {
    lines.push(`-H ${quote(`${name}: ${value}`)}`);
  }
  if (publication.body.length > 0) {
    lines.push(data(publication.body));
  }
  return lines.join(" \\\n  ");
}

// data returns the option for a body; what is no text is piped in by the shell.
function data(body: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(body);
    if (!text.includes("\0")) {
      return "--data-raw " + quote(text);
    }
  } catch {
    // not text
  }
  const base64 = btoa(Array.from(body, (byte) => String.fromCharCode(byte)).join(""));
  return `--data-binary @<(base64 -d <<<${base64})`;
}

function quote(text: string): string {
  return "'" + text.replaceAll("'", `'\\''`) + "'";
}
