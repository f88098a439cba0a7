// The ways in which a run begins: by the client, by a request to the endpoint
// itself, as a message, and over REST; and what a run carries along (contract,
// workflows 1.5, 2.3, 2.4, 3.5 and 6.1).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client } from "@upstash/qstash";
import { answered, client, destination, ended, eventually, gate, logOf, resultFrom, resultOf, start, testNoMoreCalls, workflow } from "./setup.mjs";

const messages = new Client();

/** What the log says of a trigger that reaches an endpoint which speaks no version of the protocol that it could be started with. */
const TOO_OLD = "trigger rest api is only usable with sdk versions after v1.0.0 major version";
const NO_WORKFLOW =
  "detected a non-workflow destination for trigger/invoke. make sure you are sending the request to the correct endpoint";

/** Sends a request to the server as a user of its REST API, and returns its answer. */
async function rest(method, path, { headers, body } = {}) {
  const { baseUrl, authorization } = messages.http;
  const response = await fetch(`${baseUrl}${path}`, { method, body, headers: { Authorization: authorization, ...headers } });
  return { status: response.status, answer: await response.json() };
}

function trigger(route, request) {
  return rest("POST", `/v2/trigger/${route.url}`, request);
}

/** Two steps that return what the run was started with. */
async function echo(context) {
  const payload = await context.run("payload", () => context.requestPayload);
  const tenant = await context.run("tenant", () => context.headers.get("x-tenant"));
  return { payload, tenant };
}

describe("the client starts", { concurrency: true }, () => {
  test("runs with payloads of every kind", async () => {
    const payloads = { text: "text", json: { order: [7] }, number: 7, none: undefined, "text that is JSON": '{"a":1}' };
    for (const [name, body] of Object.entries(payloads)) {
      const route = workflow(`/payload/${name.replaceAll(" ", "-")}`, async (context) => {
        return context.run("payload", () => ({ payload: context.requestPayload }));
      });
      const want = name === "text that is JSON" ? { a: 1 } : body;
      assert.deepEqual(await resultFrom(route, { body }), want === undefined ? {} : { payload: want }, name);
      await route.called(2);
    }
  });

  test("several runs at once, in the order of the request", async () => {
    const routes = ["/several/a", "/several/b"].map((path) => workflow(path, echo));
    const started = await client.trigger([
      { url: routes[0].url, body: 1, retries: 0 },
      { url: routes[1].url, body: 2, retries: 0, headers: { "X-Tenant": "acme" } },
      { url: routes[0].url, body: 3, retries: 0, workflowRunId: "several-3" },
    ]);
    assert.equal(started[2].workflowRunId, "wfr_several-3");
    const results = await Promise.all(started.map(({ workflowRunId }) => resultOf(workflowRunId)));
    assert.deepEqual(results, [{ payload: 1, tenant: null }, { payload: 2, tenant: "acme" }, { payload: 3, tenant: null }]);
    await routes[0].called(6);
    await routes[1].called(3);
  });

  test("a run with its own id, once while it is active", async () => {
    const waiting = gate();
    const route = workflow("/own-id", async (context) => {
      await context.run("wait for the second trigger", () => waiting.passed);
      return context.requestPayload;
    });
    const first = await start(route, { workflowRunId: "own-id", body: "first" });
    assert.equal(first, "wfr_own-id");
    assert.equal(await start(route, { workflowRunId: "own-id", body: "second" }), first);
    waiting.open();
    assert.equal(await resultOf(first), "first");
    assert.equal((await client.logs({ workflowRunId: first })).runs.length, 1);
    await route.called(2);
  });

  test("a run with the id of one that has ended", async () => {
    const route = workflow("/id-again", async (context) => context.run("payload", () => context.requestPayload));
    const id = await start(route, { workflowRunId: "id-again", body: "first" });
    assert.equal(await resultOf(id), "first");
    assert.equal(await start(route, { workflowRunId: "id-again", body: "second" }), id);
    await route.called(4);
    const { runs } = await eventually(async () => {
      const page = await client.logs({ workflowRunId: id });
      return page.runs.every(({ workflowState }) => workflowState === "RUN_SUCCESS") && page.runs.length === 2 ? page : undefined;
    });
    assert.deepEqual(runs.map(({ workflowRunResponse }) => workflowRunResponse), ['"second"', '"first"']);
    assert.ok(runs[0].workflowRunCreatedAt > runs[1].workflowRunCreatedAt);
    const byTime = await client.logs({ workflowRunId: id, workflowCreatedAt: runs[1].workflowRunCreatedAt });
    assert.deepEqual(byTime.runs.map(({ workflowRunResponse }) => workflowRunResponse), ['"first"']);
  });

  test("a run after a delay, or at a moment", async () => {
    const route = workflow("/delayed", echo);
    const triggered = Date.now();
    const moment = Math.ceil(triggered / 1000) + 1; // s
    const ids = [await start(route, { delay: "1s" }), await start(route, { delay: 1 }), await start(route, { notBefore: moment })];
    const later = await start(route, { delay: "1h" });
    assert.equal((await logOf(later)).workflowState, "RUN_STARTED");
    await client.cancel(later);
    await Promise.all(ids.map(resultOf));
    const first = ids.map((id) => route.of(id)[0].at);
    assert.ok(first[0] >= triggered + 1000 && first[1] >= triggered + 1000 && first[2] >= moment * 1000, `${first} after ${triggered}`);
    await route.called(9);
  });

  test("a run with labels and headers, which every call of the endpoint has", async () => {
    const third = destination("/carried/third", () => new Response());
    let seen;
    const route = workflow("/carried", async (context) => {
      await context.run("run", () => "ran");
      await context.sleep("sleep", 1);
      await context.call("call", { url: third.url });
      await context.waitForEvent("wait", "never", { timeout: 1 });
      await Promise.all([context.run("a", () => {}), context.run("b", () => {})]);
      // 1 + run + sleep + 2 of the call + wait + 2 plans + 2 results
      await context.run("wait for results that were overtaken", () => route.reached(10));
      seen = { label: context.label, labels: context.labels, id: context.workflowRunId, createdAt: context.workflowRunCreatedAt };
      seen.tenant = context.headers.get("x-tenant");
    });
    const id = await start(route, {
      label: ["orders", "eu"],
      headers: { "X-Tenant": "acme", Authorization: "Bearer user", "Content-Type": "text/plain" },
      body: "text",
    });
    await resultOf(id);
    const run = await logOf(id);
    assert.deepEqual([run.label, run.labels], ["orders", ["orders", "eu"]]);
    assert.deepEqual(seen, {
      label: "orders",
      labels: ["orders", "eu"],
      id,
      createdAt: run.workflowRunCreatedAt,
      tenant: "acme",
    });
    for (const { headers } of await route.called(11)) {
      assert.equal(headers["x-tenant"], "acme");
      assert.equal(headers.authorization, "Bearer user");
      assert.equal(headers["upstash-label"], "orders,eu");
      assert.equal(headers["upstash-workflow-runid"], id);
      assert.equal(headers["upstash-workflow-url"], route.url);
      assert.equal(headers["upstash-workflow-createdat"], String(run.workflowRunCreatedAt));
      const fromCallback = headers["upstash-workflow-callback"] === "true";
      assert.equal(headers["upstash-workflow-sdk-version"], fromCallback ? undefined : "1");
    }
    const [{ headers }] = await third.called(1);
    assert.equal(headers["x-tenant"], undefined);
    assert.equal(headers["upstash-workflow-sdk-version"], undefined);
  });
});

describe("a request to the endpoint starts a run", { concurrency: true }, () => {
  // One call more than a run of the client: the endpoint triggers itself.
  test("that comes from anywhere, if the endpoint lets it", async () => {
    const route = workflow("/direct", echo, { receiver: undefined });
    const response = await fetch(route.url, {
      method: "POST",
      body: "text",
      headers: { "X-Tenant": "acme", "Content-Type": "text/plain", Authorization: "Bearer user" },
    });
    assert.equal(response.status, 200);
    const { workflowRunId } = await response.json();
    assert.deepEqual(await resultOf(workflowRunId), { payload: "text", tenant: "acme" });
    const [direct, ...deliveries] = await route.called(4);
    assert.equal(direct.body, "text");
    for (const { headers } of deliveries) {
      assert.equal(headers["x-tenant"], "acme");
      assert.equal(headers.authorization, "Bearer user");
      assert.equal(headers.host, new URL(route.url).host);
    }
  });

  test("that is a message", async () => {
    const route = workflow("/published", echo);
    const { messageId } = await messages.publish({ url: route.url, body: "text", headers: { "X-Tenant": "acme" } });
    const [published] = await eventually(async () => (route.calls[0]?.answer ? route.calls : undefined));
    const { workflowRunId } = JSON.parse(published.answer);
    assert.deepEqual(await resultOf(workflowRunId), { payload: "text", tenant: "acme" });
    const [message, ...deliveries] = await route.called(4);
    assert.equal(message.body, "text");
    assert.equal(message.headers["upstash-message-id"], messageId);
    // The endpoint forwards all headers of the message, its signature and id included.
    for (const { headers } of deliveries) {
      assert.notEqual(headers["upstash-message-id"], messageId);
      assert.notEqual(headers["upstash-signature"], message.headers["upstash-signature"]);
    }
  });

  test("but not if it is not signed", async () => {
    const route = workflow("/unsigned", echo);
    const response = await fetch(route.url, { method: "POST", body: "text" });
    assert.equal(response.status, 500);
    await route.called(1);
  });
});

describe("the REST API starts", { concurrency: true }, () => {
  test("a run, with no call more than the client needs", async () => {
    const route = workflow("/rest", async (context) => ({ ...(await echo(context)), labels: context.labels }));
    const { status, answer } = await trigger(route, {
      body: "text",
      headers: { "Content-Type": "text/plain", "Upstash-Forward-X-Tenant": "acme", "Upstash-Label": "rest,eu", "Upstash-Retries": "0" },
    });
    assert.equal(status, 200);
    assert.match(answer.workflowRunId, /^wfr_/);
    assert.equal(typeof answer.workflowCreatedAt, "number");
    const result = await resultOf(answer.workflowRunId);
    assert.deepEqual(result, { payload: "text", tenant: "acme", labels: ["rest", "eu"] });
    const run = await logOf(answer.workflowRunId);
    assert.equal(run.workflowRunCreatedAt, answer.workflowCreatedAt);
    assert.deepEqual(run.labels, ["rest", "eu"]);
    for (const { headers } of await route.called(3)) assert.equal(headers["x-tenant"], "acme");
  });

  test("a run with the id that is given, once while it is active", async () => {
    const waiting = gate();
    const route = workflow("/rest/own-id", async (context) => {
      await context.run("wait for the second trigger", () => waiting.passed);
    });
    const headers = { "Upstash-Workflow-RunId": "my-own-id", "Upstash-Retries": "0" };
    const first = await trigger(route, { headers });
    assert.equal(first.answer.workflowRunId, "my-own-id");
    const second = await trigger(route, { headers });
    assert.deepEqual(second, { status: 200, answer: { ...first.answer, deduplicated: true } });
    waiting.open();
    await resultOf("my-own-id");
    await route.called(2);
  });

  test("a run of an endpoint whose version it does not know, by one call more", async () => {
    const route = workflow("/rest/unknown", echo);
    const { answer } = await trigger(route, {
      body: '{"order":7}',
      headers: { "Upstash-Workflow-Unknown-Sdk": "true", "Upstash-Forward-X-Tenant": "acme", "Upstash-Retries": "0" },
    });
    const result = await resultOf(answer.workflowRunId);
    assert.deepEqual(result, { payload: { order: 7 }, tenant: "acme" });
    const [first, ...deliveries] = await route.called(4);
    assert.equal(first.headers["upstash-workflow-unknown-sdk"], "true");
    for (const { headers } of deliveries) assert.equal(headers["upstash-workflow-unknown-sdk"], undefined);
    const { steps } = await logOf(answer.workflowRunId);
    assert.deepEqual(steps.flatMap((group) => group.steps).map(({ stepName }) => stepName), ["init", "payload", "tenant"]);
  });

  test("the same when the client forwards that the version is unknown", async () => {
    const route = workflow("/unknown", echo);
    const id = await start(route, { body: "text", headers: { "Upstash-Workflow-Unknown-Sdk": "true", "X-Tenant": "acme" } });
    assert.deepEqual(await resultOf(id), { payload: "text", tenant: "acme" });
    await route.called(4);
  });

  test("several runs at once", async () => {
    const route = workflow("/rest/batch", echo);
    const { status, answer } = await rest("POST", "/v2/batch/trigger", {
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify([
        { destination: route.url, body: "one", headers: { "Upstash-Retries": "0", "Upstash-Forward-X-Tenant": "acme" } },
        { destination: route.url, body: "two", headers: { "Upstash-Retries": "0", "Upstash-Workflow-RunId": "batch-2" } },
      ]),
    });
    assert.equal(status, 201);
    assert.equal(answer[1].workflowRunId, "batch-2");
    const results = await Promise.all(answer.map(({ workflowRunId }) => resultOf(workflowRunId)));
    assert.deepEqual(results, [{ payload: "one", tenant: "acme" }, { payload: "two", tenant: null }]);
    await route.called(6);
  });

  test("a run whose failure its endpoint learns of, or another URL", async () => {
    const failures = [];
    const failureFunction = ({ failResponse, context }) => void failures.push([failResponse, context.headers.get("x-tenant")]);
    const fail = async (context) => context.run("fail", () => assert.fail("broken"));
    const own = workflow("/rest/failing", fail, { failureFunction });
    const headers = { "Upstash-Retries": "0", "Upstash-Forward-X-Tenant": "acme" };
    await ended((await trigger(own, { headers })).answer.workflowRunId, "RUN_FAILED");
    await own.called(2);
    assert.deepEqual(failures, [["broken", "acme"]]);

    const elsewhere = destination("/rest/failures", () => new Response());
    const route = workflow("/rest/failing-elsewhere", fail, { failureFunction });
    const { answer } = await trigger(route, { headers: { ...headers, "Upstash-Failure-Callback": elsewhere.url } });
    await ended(answer.workflowRunId, "RUN_FAILED");
    const [callback] = await elsewhere.called(1);
    assert.equal(callback.headers["x-tenant"], "acme");
    assert.equal(JSON.parse(callback.body).workflowRunId, answer.workflowRunId);
    await route.called(1);
  });
});

describe("no run starts", { concurrency: true }, () => {
  /** Asserts that a run has failed with one error, which no attempt followed. */
  async function assertDetected(workflowRunId, error, body) {
    const { steps } = await ended(workflowRunId, "RUN_FAILED");
    assert.deepEqual(steps.map(({ type }) => type), ["sequential", "next"]);
    assert.equal(steps[0].steps[0].state, "STEP_SUCCESS");
    assert.equal(steps[1].steps.length, 1);
    assert.equal(steps[1].steps[0].state, "STEP_FAILED");
    assert.deepEqual(steps[1].steps[0].errors.map(({ error }) => error), [error]);
    assert.equal(steps[1].steps[0].errors[0].body, body);
  }

  // The second call is the failure callback, which goes to the URL of the run unless another was given.
  test("at a destination that is no workflow", async () => {
    const route = destination("/no-workflow", () => new Response("hello"));
    await assertDetected(await start(route, { retries: 3 }), NO_WORKFLOW, "hello");
    await route.called(2);
  });

  test("over REST at a destination that is no workflow", async () => {
    const route = destination("/rest/no-workflow", () => new Response("hello"));
    const { answer } = await trigger(route);
    await assertDetected(answer.workflowRunId, TOO_OLD, "hello");
    await route.called(2);
  });

  test("over REST at an endpoint that does not tell a version of 1 or later", async () => {
    const headers = { "Upstash-Workflow-Sdk-Version": "1" };
    const route = destination("/rest/old", () => new Response("{}", { headers }));
    const { answer } = await trigger(route);
    await assertDetected(answer.workflowRunId, TOO_OLD, "{}");
    await route.called(2);
  });

  test("with settings that are wrong", async () => {
    const route = destination("/wrong", () => new Response());
    await assert.rejects(start(route, { retryDelay: "retried +" }), answered(400));
    assert.equal((await trigger(route, { headers: { "Upstash-Delay": "soon" } })).status, 400);
    await route.called(0);
    assert.deepEqual((await client.logs({ workflowUrl: route.url })).runs, []);
  });
});

testNoMoreCalls();
