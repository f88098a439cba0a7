import assert from "node:assert/strict";
import { createHash, createHmac } from "node:crypto";
import { test } from "node:test";

import { inWords, zoneOf } from "../src/cron";
import { diff } from "../src/diff";
import { failureOf } from "../src/failure";
import { follow } from "../src/follow";
import { bytes, createdAt, readable, span, unfold } from "../src/format";
import { attempts, readLife } from "../src/life";
import { curl, publicationOf, refusal, unsendable } from "../src/publication";
import { failing, readMetrics } from "../src/overview";
import { rowOf } from "../src/rows";
import { messageOf } from "../src/saying";
import { readRequest, verify } from "../src/signature";
import { timings, type RunEvent } from "../src/timing";
import type { LogEntry, Run, Step } from "../src/types";
import { roundMost, runsOf } from "../src/ui/chart";
import { whyRun } from "../src/why";

test("cron expressions in words", () => {
  const cases: Record<string, string> = {
    "* * * * *": "every minute",
    "*/5 * * * *": "every 5 minutes",
    "0 * * * *": "every hour, on the hour every day",
    "15 * * * *": "at minute 15 of every hour every day",
    "30 9 * * MON-FRI": "at 09:30 on Monday to Friday",
    "0 9,18 1 * *": "at 09:00 and 18:00 on day 1 of the month",
    "0 0 1 1 *": "at 00:00 on day 1 of the month in January",
    "0 9 * * FRI-SUN": "at 09:00 on Friday to Sunday",
    "0 9 * * 6-0": "at 09:00 on Saturday and Sunday",
    "0 9 * * SUN-MON": "at 09:00 on Monday and Sunday",
    "0 0 1 * 7": "at 00:00 on day 1 of the month, and also on Sunday",
    "CRON_TZ=Asia/Tokyo 5 4 * JAN,mar *": "at 04:05 every day in January and March",
    "@weekly": "at 00:00 on Sunday",
    "@every 90m": "every 90m, counted from a Monday at midnight UTC",
  };
  for (const [expression, words] of Object.entries(cases)) {
    assert.equal(inWords(expression), words, expression);
  }
  assert.equal(zoneOf("CRON_TZ=Asia/Tokyo 5 4 * * *"), "Asia/Tokyo");
  assert.equal(zoneOf("5 4 * * *"), "UTC");
});

test("spans, sizes, percentiles and the time in an id", () => {
  assert.deepEqual([0, 999, 1500, 61_000, 3_600_000, 90_000_000].map(span), ["0 ms", "999 ms", "1.50 s", "1 min 1 s", "1 h", "1 d 1 h"]);
  assert.deepEqual([12, 1234, 5_000_000].map(bytes), ["12 B", "1.2 kB", "5.0 MB"]);
  const metrics = readMetrics('g 7\nh_bucket{le="1"} 5\nh_bucket{le="2"} 9\nh_bucket{le="+Inf"} 10\nnone_bucket{le="+Inf"} 0\n');
  assert.deepEqual([0.5, 0.9, 0.99].map((part) => metrics.percentile("h", part)), [1, 2, undefined]);
  assert.deepEqual([metrics.gauge("g"), metrics.gauge("no"), metrics.percentile("none", 0.5), metrics.percentile("no", 0.5)], [7, undefined, undefined, undefined]);
  const milliseconds = 1_700_000_000_000n;
  let n = milliseconds << 80n;
  let id = "";
  for (let i = 0; i < 22; i++) {
    id = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[Number(n % 58n)] + id;
    n /= 58n;
  }
  assert.equal(createdAt("msg_" + id), Number(milliseconds));
});

test("bodies as they are shown", () => {
  const encode = (text: string) => new TextEncoder().encode(text);
  assert.deepEqual(readable(encode('{"a":1}')), { text: '{\n  "a": 1\n}', kind: "json" });
  assert.deepEqual(readable(encode("{a")), { text: "{a", kind: "text" });
  assert.equal(readable(Uint8Array.of(0xff, 0x41)).text, "000000  ff 41" + " ".repeat(42) + "  ·A");
});

const entry: LogEntry = {
  time: 1, state: "FAILED", messageId: "msg_1", url: "https://a.example/x?y=1", method: "PUT", maxRetries: 2,
  header: { "Content-Type": ["text/plain"], "X-Tenant": ["it's"] }, body: btoa("it's"), labels: ["a", "b"],
  flowControlKey: "k", rate: 3, period: 60, timeout: 1500,
};

test("a message as a request", () => {
  Object.assign(globalThis, { location: { origin: "http://here" } });
  assert.equal(curl(publicationOf({ ...entry, queueName: "q" })), [
    `curl -g --path-as-is -X POST 'http://here/v2/enqueue/q/https://a.example/x?y=1'`, `-H "Authorization: Bearer $QSTASH_TOKEN"`,
    `-H 'Upstash-Method: PUT'`, `-H 'Upstash-Retries: 2'`, `-H 'Upstash-Timeout: 1.5s'`, `-H 'Upstash-Label: a,b'`,
    `-H 'Upstash-Flow-Control-Key: k'`, `-H 'Upstash-Flow-Control-Value: rate=3,period=60s'`,
    `-H 'Content-Type: text/plain'`, `-H 'Upstash-Forward-X-Tenant: it'\\''s'`, `--data-raw 'it'\\''s'`,
  ].join(" \\\n  "));
  assert.equal(refusal(entry), "");
  assert.equal(refusal({ ...entry, body: "REDACTED:00" }), "its body is redacted");
  assert.equal(refusal({ ...entry, header: { Secret: ["REDACTED:00"] } }), "its header Upstash-Forward-Secret is redacted");
  assert.match(refusal({ ...entry, workflowRunId: "wfr_1" }), /restart the run/);
  assert.equal(refusal({ ...entry, failureCallbackHeaders: { Key: ["REDACTED:00"] } }), "its header Upstash-Failure-Callback-Forward-Key is redacted");
  assert.match(refusal({ ...entry, header: { "X-Name": ["Zo\ufffd"] } }), /X-Name is not UTF-8/);
  assert.match(refusal({ ...entry, header: { "X-Name": ["Zo\u00eb"] } }), /X-Name is not UTF-8/);
  assert.equal(refusal({ ...entry, header: { "X-Name": ["Zo\u00c3\u00ab"] } }), "");
  assert.equal(unsendable(entry), "");
  assert.match(unsendable({ ...entry, callbackHeaders: { "X-A": ["1", "2"] } }), /its header Upstash-Callback-Forward-X-A has several values/);
});

test("headers of callbacks are sent under the names that gave them", () => {
  const { headers } = publicationOf({
    ...entry, callbackHeaders: { "Upstash-Callback-Retries": ["1"], "X-A": ["2"] }, failureCallbackHeaders: { "Upstash-Failure-Callback-Method": ["PUT"] },
  });
  assert.deepEqual(headers.slice(-3), [["Upstash-Callback-Retries", "1"], ["Upstash-Callback-Forward-X-A", "2"], ["Upstash-Failure-Callback-Method", "PUT"]]);
});

test("URLs in a path", () => {
  const path = (url: string) => publicationOf({ ...entry, url }).path;
  const plain = "https://a.example:8080/x/y.json?a=1&b=c";
  assert.equal(path(plain), "/v2/publish/" + plain);
  for (const url of ["http://a/?f={a,b}", "http://a/x/../y", "http://a//b", "http://a/%2F", "http://a/?Upstash-Retries=1", "http://[::1]/"]) {
    assert.equal(path(url), "/v2/publish/" + encodeURIComponent(url));
  }
});

// withLog answers questions of the log from a list of entries, in pages of three, and notes
// what was asked.
async function withLog(entries: LogEntry[], use: (asked: string[]) => Promise<void>): Promise<void> {
  const asked: string[] = [];
  const before = globalThis.fetch;
  Object.assign(globalThis, { sessionStorage: { getItem: () => "t" }, fetch: async (path: string) => {
    asked.push(path.split("?")[1]!);
    const query = new URLSearchParams(asked.at(-1));
    let found = entries.filter((one) => one.time >= Number(query.get("fromDate") ?? 0));
    if (query.get("order") === "latestFirst") {
      return Response.json({ events: found.slice(-1) });
    }
    found = found.slice(Number(query.get("cursor") ?? 0));
    const next = Number(query.get("cursor") ?? 0) + 3;
    return Response.json({ events: found.slice(0, 3), cursor: found.length > 3 ? String(next) : undefined });
  } });
  await use(asked);
  globalThis.fetch = before;
}

test("a life is read to its end, and then only what is new", async () => {
  const { signal } = new AbortController();
  const all = (["CREATED", "ACTIVE", "ERROR", "RETRY", "ACTIVE", "ERROR", "FAILED"] as const).map((state, i) => ({ ...entry, state, time: [1, 1, 2, 2, 3, 3, 3][i]! }));
  const entries = all.slice(0, 4);
  await withLog(entries, async (asked) => {
    let life = await readLife("msg_1", undefined, signal);
    assert.deepEqual(life?.changes.map((one) => one.state), ["CREATED", "ACTIVE", "ERROR", "RETRY"]);
    assert.equal(asked.length, 3);
    life = await readLife("msg_1", life, signal);
    assert.equal(asked.length, 4, "nothing new, and more than one question");
    entries.push(...all.slice(4, 6));
    await readLife("msg_1", life, signal);
    entries.push(all[6]!);
    life = await readLife("msg_1", life, signal);
    assert.equal(life?.newest.state, "FAILED");
    assert.deepEqual(life?.changes, all);
    assert.equal(life?.newest.body, entry.body);
    assert.deepEqual(attempts(all), [0, 1, 0, 0, 2, 0, 0]);
    assert.deepEqual(asked.filter((query) => !query.includes("trimBody")), ["messageId=msg_1&order=latestFirst&count=1"], "whole bodies are asked for more than once");
  });
  await withLog([], async () => assert.equal(await readLife("msg_1", undefined, signal), undefined));
  await withLog(Array.from({ length: 1500 }, (_, i) => ({ ...entry, time: i })), async () => {
    const life = await readLife("msg_1", undefined, signal);
    assert.deepEqual([life?.changes.length, life?.more], [1002, true]);
  });
});

const key = "sig_current";
const now = 1_700_000_000_000;

// sign makes a signature as the server does.
function sign(claims: object, header: object = { alg: "HS256", typ: "JWT" }): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const text = part(header) + "." + part(claims);
  return text + "." + createHmac("sha256", key).update(text).digest("base64url");
}

test("what is refused for good is asked once", async () => {
  const refused: string[] = [];
  const before = globalThis.fetch;
  let asked = 0;
  Object.assign(globalThis, { sessionStorage: { getItem: () => "t" }, fetch: async () => {
    asked++;
    return Response.json({ error: "no such state" }, { status: 400 });
  } });
  await follow("/v2/logs", {}, { entries: () => assert.fail(), state: () => {}, refused: (sentence) => refused.push(sentence) }, new AbortController().signal);
  globalThis.fetch = before;
  assert.deepEqual([asked, refused], [1, ["no such state"]]);
});

test("the check of a signature that fails is named", async () => {
  const good = { iss: "Upstash", sub: "https://a.example/", exp: now / 1000 + 300, nbf: 0, iat: now / 1000, body: createHash("sha256").update("x").digest("base64url") + "=" };
  const cases: [string, { token?: string; keys?: string[]; body?: string; url?: string }, string[]][] = [
    ["all is well", {}, []],
    ["the next key", { keys: ["sig_other", key] }, []],
    ["no JWT", { token: "abc" }, ["form"]],
    ["another algorithm", { token: sign(good, { alg: "none" }) }, ["alg"]],
    ["other keys", { keys: ["sig_other", ""] }, ["signature"]],
    ["another issuer", { token: sign({ ...good, iss: "me" }) }, ["iss"]],
    ["expired", { token: sign({ ...good, exp: now / 1000 - 1 }) }, ["exp"]],
    ["not yet valid", { token: sign({ ...good, nbf: now / 1000 + 9 }) }, ["nbf"]],
    ["another URL", { url: "https://a.example" }, ["sub"]],
    ["another scheme", { url: "http://a.example/" }, ["sub"]],
    ["a scheme that is not told", { url: "//a.example/" }, []],
    ["another host, and no scheme", { url: "//b.example/" }, ["sub"]],
    ["another body", { body: "y" }, ["body"]],
  ];
  for (const [name, given, wrong] of cases) {
    const checks = await verify({ token: sign(good), url: good.sub, body: "x", keys: [key], ...given }, now);
    assert.deepEqual(checks.filter((check) => check.good === false).map((check) => check.name), wrong, name);
  }
});

test("a captured request is taken apart", () => {
  const request = (more: string) => readRequest(`POST /hook?a=1 HTTP/1.1\r\nHost: a.example\r\n${more}upstash-signature: t.t.t\r\n\r\na\n\nb`);
  assert.deepEqual(request(""), { token: "t.t.t", url: "//a.example/hook?a=1", body: "a\n\nb" });
  assert.equal(request("X-Forwarded-Proto: http\r\n")?.url, "http://a.example/hook?a=1");
  assert.equal(readRequest("hello"), null);
});

test("steps of a run begin where the group before them ended", () => {
  const step = (stepId: number, state: string) => ({ stepId, stepName: "s" + stepId, messageId: "m", retries: 0, state });
  const run = {
    workflowRunId: "r", workflowUrl: "u", workflowState: "RUN_STARTED", workflowRunCreatedAt: 100,
    steps: [{ type: "sequential", steps: [step(1, "STEP_SUCCESS")] }, { type: "parallel", steps: [step(2, "STEP_SUCCESS"), step(3, "STEP_RETRY")] }],
  } as Run;
  const event = (time: number, stepId: number, state: string) => ({ time, state, stepInfo: step(stepId, state) as Run["steps"][0]["steps"][0] });
  const times = timings(run, [
    event(150, 1, "STEP_SUCCESS"), event(160, 2, "STEP_PROGRESS"), event(160, 3, "STEP_PROGRESS"), event(170, 2, "STEP_SUCCESS"), event(180, 3, "STEP_RETRY"),
  ], 200);
  const shown = run.steps.flatMap((group) => group.steps).map((one) => times.get(one));
  assert.deepEqual(shown, [{ from: 100, to: 150, done: true }, { from: 160, to: 170, done: true }, { from: 160, to: 200, done: false }]);
  assert.match(whyRun(run)[0]!, /^Step s3 failed 1 time\./);
});

test("what became of a run that failed", () => {
  const failed = { workflowRunId: "r", workflowState: "RUN_FAILED", steps: [] as Run["steps"] } as Run;
  const successor = { workflowRunId: "s", workflowRunCreatedAt: 1 };
  assert.deepEqual(whyRun({ ...failed, dlqId: "1-0" }), ["It failed for good. It is in the DLQ and can be restarted."]);
  assert.deepEqual(whyRun({ ...failed, dlqId: "1-0", successor }), ["It failed for good. It was restarted."]);
  assert.deepEqual(whyRun(failed), ["It failed for good. It is no longer in the DLQ; it can only be started again from its payload."]);
});

test("a sleep ends when it was to end, whatever the next step does", () => {
  const sleep = { stepId: 1, stepName: "nap", messageId: "m", retries: 3, createdAt: 200, state: "STEP_SUCCESS", sleepFor: 1 };
  const next = { stepName: "pay", messageId: "m", retries: 3, state: "STEP_FAILED" };
  const run = {
    workflowRunId: "r", workflowUrl: "u", workflowState: "RUN_FAILED", workflowRunCreatedAt: 100, workflowRunCompletedAt: 13_400,
    steps: [{ type: "sequential", steps: [sleep] }, { type: "next", steps: [next] }],
  } as Run;
  const events = [
    { time: 200, state: "STEP_PROGRESS", stepInfo: sleep }, { time: 1300, state: "STEP_RETRY", stepInfo: next }, { time: 13_400, state: "STEP_FAILED", stepInfo: next },
  ] as RunEvent[];
  const times = timings(run, events);
  const shown = run.steps.flatMap((group) => group.steps).map((one) => times.get(one));
  assert.deepEqual(shown, [{ from: 200, to: 1200, done: true }, { from: 1200, to: 13_400, done: true }]);
  const woken = { ...sleep, sleepFor: 3600 }; // and run after a second
  assert.deepEqual(timings({ ...run, steps: [{ type: "sequential", steps: [woken] }] } as Run, events).get(woken as Step), { from: 200, to: 1300, done: true });
  const until = { ...sleep, sleepFor: undefined, sleepUntil: 1 };
  assert.deepEqual(timings({ ...run, steps: [{ type: "sequential", steps: [until] }] } as Run, events).get(until as Step), { from: 200, to: 1000, done: true });
});

const answers: Record<string, [answer: string, says: string]> = {
  "an SDK's error": ['{"error":"E","message":"no \\"such\\" order"}', 'no "such" order'],
  "a plain text": ["the database does not answer\nat db:5432", "the database does not answer"],
  "a traceback of Python": ['Traceback (most recent call last):\n  File "a.py", line 1\n    pay()\nKeyError: \'id\'\n', "KeyError: 'id'"],
  "a JSON string": ['"quota used up"', "quota used up"],
  "error": ['{"error":"the card was declined"}', "the card was declined"],
  "error with a message": ['{"error":{"code":7,"message":"quota is used up"}}', "quota is used up"],
  "OAuth": ['{"error":"invalid_grant","error_description":"the token has expired"}', "the token has expired"],
  "FastAPI": ['{"detail":"Not authenticated"}', "Not authenticated"],
  "FastAPI, a field": ['{"detail":[{"loc":["body","id"],"msg":"field required","type":"missing"}]}', "body.id: field required"],
  "problem+json": ['{"type":"about:blank","title":"Conflict","status":409,"detail":"the order is paid"}', "the order is paid"],
  "problem+json, a title": ['{"type":"about:blank","title":"Conflict","status":409}', "Conflict"],
  "ASP.NET, fields": ['{"title":"One or more validation errors occurred.","errors":{"Email":["is missing"],"Age":["is no number"]}}', "Email: is missing; Age: is no number"],
  "NestJS": ['{"statusCode":400,"message":["name is missing","age is missing"],"error":"Bad Request"}', "name is missing; age is missing"],
  "GraphQL": ['{"errors":[{"message":"no field x","path":["a"]}]}', "no field x"],
  "JSON:API": ['{"errors":[{"status":"422","title":"Invalid","detail":"the name is too long"}]}', "the name is too long"],
  "Lambda": ['{"errorType":"TypeError","errorMessage":"x is not a function"}', "x is not a function"],
  "a gateway of AWS": ['{"Message":"Forbidden"}', "Forbidden"],
  "a page of nginx": ["<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway</h1></center></body></html>", "502 Bad Gateway"],
  "a page of Express": ["<!DOCTYPE html>\n<html><head><title>Error</title></head><body><pre>Error: can&#39;t pay &amp; won&#x27;t<br> &nbsp; at x</pre></body></html>", "Error: can't pay & won't"],
  "XML": ['<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>', "Access Denied"],
  "JSON that is cut off": ['{"message":"cut of', "cut of"],
  "JSON that is cut off in an escape": ['{"error":{"code":1,"message":"cut of\\u00', "cut of"],
  "JSON that is cut off elsewhere": ['{"detail":[{"loc":["body"],"msg":"field required","ctx":{', "field required"],
  "nothing": ["", ""],
  "a page without a word": ["<html>", ""],
  "a number": ['{"error":1}', ""],
  "a list": ['["x"]', ""],
};
for (const [name, [answer, says]] of Object.entries(answers)) {
  test("what an answer says: " + name, () => assert.equal(messageOf(answer), says));
}

test("line breaks in JSON are shown as line breaks", () => {
  const stack = JSON.stringify({ stack: "E: x\n\tat a\r\n  at b", path: "C:\\new" }, null, 2);
  assert.equal(unfold(stack), '{\n  "stack": "E: x\n    \tat a\n      at b",\n  "path": "C:\\\\new"\n}');
});

test("a message as a row", () => {
  const change = (state: string, time: number, more: Partial<LogEntry> = {}) =>
    ({ messageId: "msg_1ChPuUjDEbrGrdXZXqY111", state, time, url: "http://a/b", method: "POST", maxRetries: 3, header: {}, body: "", ...more }) as LogEntry;
  const begun = createdAt("msg_1ChPuUjDEbrGrdXZXqY111");
  const error = change("ERROR", begun + 3, { error: "500 Internal Server Error", responseStatus: 500 });
  const old = [change("ACTIVE", begun + 2), change("CREATED", begun)];
  const retried = rowOf([change("RETRY", begun + 4, { nextDeliveryTime: begun + 60_000, queueName: "q", scheduleId: "s" }), error, ...old], { ...error, responseBody: btoa('{"message":"full"}') });
  assert.deepEqual([retried.status, retried.attempts, retried.took, retried.via], ["500", 1, undefined, "queue q, schedule s"]);
  assert.match(retried.why, /^next attempt at .*: full$/);
  const delivered = rowOf([change("DELIVERED", begun + 90, { attempt: { status: 204, duration: 5 } }), change("ACTIVE", begun + 80), error, ...old]);
  assert.deepEqual([delivered.status, delivered.attempts, delivered.took, delivered.why, delivered.partial], ["204", 2, 90, "", false]);
  assert.equal(rowOf([change("FAILED", begun + 5, { error: "connection refused" }), { ...error, responseStatus: 0, error: "connection refused" }]).status, "none");
});

test("two texts line by line", () => {
  const shown = (a: string, b: string) => diff(a, b).map((line) => ({ both: " ", left: "-", right: "+" })[line.in] + line.text).join(" ");
  assert.equal(shown("a\nb\nc", "a\nx\nc\nd"), " a -b +x  c +d");
  assert.equal(shown("a", "a"), " a");
  assert.equal(shown("", "a"), "- +a");
});

test("an exception in an answer", () => {
  assert.deepEqual(failureOf('{"error":"Error","message":"no","stack":"Error: no\\n    at a.js:1"}'), { says: "no", stack: "Error: no\n    at a.js:1" });
  assert.deepEqual(failureOf('{"errorMessage":"no","stackTrace":["at a","at b"]}'), { says: "no", stack: "at a\nat b" });
  const trace = 'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no';
  assert.deepEqual(failureOf(trace), { says: "ValueError: no", stack: trace });
  assert.deepEqual(failureOf("it is down"), { says: "it is down", stack: "" });
  assert.deepEqual(failureOf(""), { says: "", stack: "" });
});

test("charts", () => {
  assert.deepEqual([[], [0], [3], [7], [11], [430], [1000], [1001]].map((values) => roundMost(values)), [2, 2, 4, 10, 20, 600, 1000, 2000]);
  assert.deepEqual(runsOf([undefined, 1, 2, undefined, 3]), [[1, 3], [4, 5]]);
});

test("destinations that fail", () => {
  const of = (host: string | undefined, error: number) => ({ host, states: { ERROR: error }, statuses: { "2xx": 6, "5xx": error, none: 1 } });
  assert.deepEqual(failing([of("a", 3), of(undefined, 9), of("b", 0)]).map((one) => [one.of.host, one.failed, one.attempts]), [["a", 4, 10]]);
});
