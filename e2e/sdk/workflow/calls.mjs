// Requests to third parties, which the server makes for the run. A call costs the
// endpoint three of its own: one issues it, one brings the answer, which the
// endpoint publishes as a result, and one delivers the result (contract, workflows
// 4.5).
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { describe, test } from "node:test";
import { createWorkflow, destination, ended, gate, resultFrom, resultOf, start, testNoMoreCalls, workflow, workflows } from "./setup.mjs";

/** Adds an endpoint whose workflow makes one call and returns what the SDK returns of it. */
function caller(path, settings) {
  return workflow(path, async (context) => context.call("call", typeof settings === "function" ? settings() : settings));
}

const text = { "Content-Type": "text/plain; charset=utf-8" };

describe("a call", { concurrency: true }, () => {
  test("of every kind, one after another", async () => {
    const answers = {
      POST: async (request) => new Response(`${request.headers.get("x-key")} ${await request.text()}`, { status: 201, headers: text }),
      GET: () => new Response("got", { headers: { ...text, "X-Answer": "42" } }),
      PATCH: () => new Response("refused", { status: 401, headers: { ...text, "X-Reason": "token" } }),
      PUT: () => new Response(null, { status: 300 }),
      DELETE: () => Response.json({ gone: [1] }, { status: 400 }),
    };
    const third = destination("/kinds/third", (request) => answers[request.method](request));
    const route = workflow("/kinds", async (context) => {
      const { url } = third;
      const post = await context.call("post", {
        url,
        method: "POST",
        body: "žluťoučký",
        headers: { "X-Key": "k", "Content-Type": "application/x-custom" },
      });
      await context.sleep("sleep", 1);
      const get = await context.call("get", { url, headers: { "X-Key": "k" } });
      const patch = await context.call("patch", { url, method: "PATCH", retries: 1, retryDelay: "10" });
      const put = await context.call("put", { url, method: "PUT" });
      const gone = await context.call("delete", { url, method: "DELETE" });
      return [post, get, patch, put, gone];
    });
    const results = await resultFrom(route, { headers: { "X-Tenant": "acme" }, body: "payload" });
    assert.deepEqual(
      results.map(({ status, body }) => [status, body]),
      [
        [201, "k žluťoučký"],
        [200, "got"],
        [401, "refused"],
        [300, ""],
        [400, { gone: [1] }],
      ],
    );
    assert.deepEqual(results[1].header["X-Answer"], ["42"]);
    assert.deepEqual(results[2].header["X-Reason"], ["token"]);
    await route.called(1 + 5 * 2 + 1);

    const calls = await third.called(6); // PATCH twice
    assert.equal(calls[0].headers["content-type"], "application/x-custom");
    for (const { headers } of calls) {
      assert.equal(headers["x-tenant"], undefined);
      assert.equal(headers["upstash-workflow-sdk-version"], undefined);
    }
  });

  test("that fails at first is tried again", async () => {
    const third = destination("/flaky/third", (_, count) => new Response(`answer ${count}`, { status: count < 2 ? 503 : 200, headers: text }));
    const route = caller("/flaky", { url: third.url, retries: 3, retryDelay: "10 * (1 + retried)" });
    const { status, body } = await resultFrom(route);
    assert.deepEqual([status, body], [200, "answer 2"]);
    await third.called(3);
    await route.called(3);
  });

  test("that fails is not retried as often as the run", async () => {
    const third = destination("/refusing/third", () => new Response("no", { status: 500, headers: text }));
    const route = caller("/refusing", { url: third.url });
    const { status, body } = await resultFrom(route, { retries: 3, retryDelay: "10" });
    assert.deepEqual([status, body], [500, "no"]);
    await third.called(1);
    await route.called(3);
  });

  // The report of it must not look like one that is followed by another (contract, decision 32).
  test("whose answer forbids another attempt is final though retries are left", async () => {
    const headers = { ...text, "Upstash-NonRetryable-Error": "true" };
    const third = destination("/final/third", () => new Response("never", { status: 489, headers }));
    const route = caller("/final", { url: third.url, retries: 2, retryDelay: "10" });
    const { status, body } = await resultFrom(route);
    assert.deepEqual([status, body], [489, "never"]);
    await third.called(1);
    await route.called(3);
  });

  test("with an answer of bytes", async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    const headers = { "Content-Type": "application/octet-stream" };
    const third = destination("/binary/third", () => new Response(bytes, { headers }));
    const route = caller("/binary", { url: third.url });
    const { body } = await resultFrom(route);
    assert.deepEqual(Buffer.from(body, "latin1"), Buffer.from(bytes));
    await route.called(3);
  });

  test("with an answer of text beyond Latin-1", async () => {
    const third = destination("/unicode/third", () => Response.json({ horse: "🐎" }));
    const route = caller("/unicode", { url: third.url });
    assert.deepEqual((await resultFrom(route)).body, { horse: "🐎" });
    await route.called(3);
  });

  test("that takes longer than its timeout", async () => {
    const waiting = gate();
    const third = destination("/slow/third", async () => {
      await waiting.passed;
      return new Response();
    });
    const route = caller("/slow", { url: third.url, timeout: 1 });
    const { status, body } = await resultFrom(route);
    assert.equal(status, 504);
    assert.equal(typeof explanation(body), "string");
    waiting.open();
    await route.called(3);
  });

  test("to where nothing listens", async () => {
    const url = await closedURL();
    const route = caller("/refused", () => ({ url }));
    const { status, body } = await resultFrom(route);
    assert.equal(status, 503);
    assert.equal(typeof explanation(body), "string");
    await route.called(3);
  });

  test("to a workflow starts a run and does not wait for it", async () => {
    const started = gate();
    const called = createWorkflow(async (context) => {
      await context.run("wait for the caller's end", () => started.passed);
      return [context.requestPayload, context.headers.get("x-tenant")];
    });
    const caller = createWorkflow(async (context) => {
      const { status, body } = await context.call("call", { workflow: called, body: { order: 7 }, headers: { "X-Tenant": "acme" } });
      return { status, workflowRunId: body.workflowRunId };
    });
    const routes = workflows("/call-workflow", { caller, called });
    const { status, workflowRunId } = await resultFrom(routes.caller);
    assert.equal(status, 200);
    started.open();
    assert.deepEqual(await resultOf(workflowRunId), [{ order: 7 }, "acme"]);
    await routes.caller.called(3);
    await routes.called.called(3); // the call itself, too
  });
});

describe("the answer of a call", { concurrency: true }, () => {
  test("is delivered again if the endpoint does not take it", async () => {
    const third = destination("/untaken/third", () => new Response("called", { headers: text }));
    const route = workflow("/untaken", async (context) => {
      const fromCallback = context.requestPayload?.sourceMessageId !== undefined;
      if (fromCallback && context.retried === 0) throw new Error("not yet");
      return (await context.call("call", { url: third.url })).body;
    });
    assert.equal(await resultFrom(route, { retries: 1, retryDelay: "10" }), "called");
    await third.called(1);
    await route.called(4);
  });

  test("fails the run if the endpoint never takes it", async () => {
    const third = destination("/never-taken/third", () => new Response("called", { headers: text }));
    const route = workflow("/never-taken", async (context) => {
      if (context.requestPayload?.sourceMessageId !== undefined) throw new Error("never");
      await context.call("call", { url: third.url });
    });
    await ended(await start(route), "RUN_FAILED");
    await route.called(3); // the last is the failure callback
  });
});

testNoMoreCalls();

/** What the server says of a call that had no answer. */
function explanation(body) {
  return (typeof body === "string" ? JSON.parse(body) : body).message;
}

/** A URL of the loopback interface at which nothing listens. */
async function closedURL() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return `http://127.0.0.1:${port}/`;
}
