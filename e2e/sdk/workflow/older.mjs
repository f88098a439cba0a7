// The last version of the SDK before 1.0. It sends all settings of a run with
// every step, and says on the endpoint what later versions say on the trigger
// (contract, workflows 2.2 and 2.3).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client as Messages } from "@upstash/qstash";
import { Client, serve, WorkflowNonRetryableError } from "workflow-0.2";
import { createWorkflow, serveMany } from "workflow-0.2/hono";
import { app, destination, ended, eventually, gate, logOf, resultOf, testNoMoreCalls } from "./setup.mjs";

const messages = new Messages();
const client = new Client({ baseUrl: messages.http.baseUrl, token: messages.token });

/** Adds an endpoint with one workflow. */
function workflow(path, routeFunction, options) {
  return app.route(path, serve(routeFunction, { onError: () => {}, ...options }).handler);
}

async function start(route, settings) {
  const { workflowRunId } = await client.trigger({ url: route.url, retries: 0, ...settings });
  return workflowRunId;
}

async function resultFrom(route, settings) {
  return resultOf(await start(route, settings));
}

async function failureOf(workflowRunId) {
  return eventually(async () => {
    const { failureFunction } = (await logOf(workflowRunId)) ?? {};
    return failureFunction?.state === "CALLBACK_SUCCESS" ? failureFunction : undefined;
  });
}

describe("a run", { concurrency: true }, () => {
  test("of steps, sleeps and a group", async () => {
    const route = workflow("/steps", async (context) => {
      const one = await context.run("one", () => `${context.requestPayload} one`);
      await context.sleep("sleep", 1);
      const [a, b] = await Promise.all([context.run("a", () => "a"), context.sleep("b", 1)]);
      await context.run("wait for results that were overtaken", () => route.reached(7));
      return [one, a, b, context.headers.get("x-tenant"), context.label];
    }, { retries: 0 });
    const result = await resultFrom(route, { body: "payload", headers: { "X-Tenant": "acme" }, label: "older" });
    assert.deepEqual(result, ["payload one", "a", null, "acme", "older"]);
    for (const { headers } of await route.called(8)) {
      assert.equal(headers["x-tenant"], "acme");
      assert.equal(headers["upstash-label"], "older");
    }
  });

  test("that calls a third party", async () => {
    const third = destination("/call/third", () => Response.json({ horse: "🐎" }, { status: 202 }));
    const route = workflow("/call", async (context) => {
      const { status, body } = await context.call("call", { url: third.url, method: "POST", body: { order: 7 } });
      return { status, body };
    }, { retries: 0 });
    assert.deepEqual(await resultFrom(route), { status: 202, body: { horse: "🐎" } });
    const [{ body }] = await third.called(1);
    assert.equal(body, '{"order":7}');
    await route.called(3);
  });

  test("whose call fails goes on", async () => {
    const third = destination("/refusing/third", () => new Response("no", { status: 500, headers: { "Content-Type": "text/plain" } }));
    const route = workflow("/refusing", async (context) => {
      const { status, body } = await context.call("call", { url: third.url, retries: 1, retryDelay: "10" });
      return { status, body };
    }, { retries: 0 });
    assert.deepEqual(await resultFrom(route), { status: 500, body: "no" });
    await third.called(2);
    await route.called(3);
  });

  test("that waits for an event, and one that tells of it", async () => {
    const waiting = workflow("/wait", async (context) => context.waitForEvent("wait", "older", { timeout: "1h" }), { retries: 0 });
    const telling = workflow("/tell", async (context) => context.notify("tell", "older", { order: 7 }), { retries: 0 });
    const id = await start(waiting);
    await eventually(async () => ((await client.getWaiters({ eventId: "older" })).length === 1 ? true : undefined));
    const { notifyResponse } = await resultFrom(telling);
    assert.deepEqual(notifyResponse.map(({ workflowRunId }) => workflowRunId), [id]);
    assert.deepEqual(await resultOf(id), { eventData: { order: 7 }, timeout: false });
    await waiting.called(2);
    await telling.called(2);
  });

  test("that waits in vain", async () => {
    const route = workflow("/wait-in-vain", async (context) => context.waitForEvent("wait", "never", { timeout: 1 }), { retries: 0 });
    assert.deepEqual(await resultFrom(route), { timeout: true });
    await route.called(2);
  });

  test("that invokes another, and one that fails", async () => {
    const child = createWorkflow(async (context) => context.run("double", () => context.requestPayload * 2));
    const failing = createWorkflow(async (context) => {
      await context.run("fail", () => {
        throw new WorkflowNonRetryableError("broken");
      });
    });
    const parent = createWorkflow(async (context) => {
      const { body } = await context.invoke("invoke", { workflow: child, body: 21 });
      const { isFailed } = await context.invoke("invoke the other", { workflow: failing, body: 0 });
      return { body, isFailed };
    });
    const handler = serveMany({ parent, child, failing }, { retries: 0, onError: () => {} });
    const [parentRoute, childRoute, failingRoute] = ["parent", "child", "failing"].map((name) =>
      app.route(`/invoke/${name}`, (request) => handler({ req: { raw: request, url: request.url }, env: undefined })),
    );
    assert.deepEqual(await resultFrom(parentRoute), { body: 42, isFailed: true });
    await parentRoute.called(3);
    await childRoute.called(2);
    await failingRoute.called(1);
  });

  test("that cancels itself", async () => {
    const route = workflow("/cancel", async (context) => {
      await context.run("one", () => {});
      await context.cancel();
    }, { retries: 0 });
    await ended(await start(route), "RUN_CANCELED");
    await route.called(2);
  });

  test("with a payload that does not fit into a delivery", async () => {
    const large = "x".repeat(5 << 19);
    const route = workflow("/large", async (context) => context.run("length", () => context.requestPayload.length), { retries: 0 });
    const id = await start(route, { body: large });
    const calls = await route.called(2);
    assert.equal(await resultOf(id), large.length);
    assert.deepEqual(calls.map(({ body }) => body.length), [0, 0]);
  });

  test("that a message starts", async () => {
    const route = workflow("/published", async (context) => context.run("payload", () => context.requestPayload), { retries: 0 });
    await messages.publish({ url: route.url, body: "text" });
    const { answer } = await eventually(async () => (route.calls[0]?.answer ? route.calls[0] : undefined));
    assert.equal(await resultOf(JSON.parse(answer).workflowRunId), "text");
    await route.called(3);
  });

  test("that the REST API cannot start", async () => {
    const refused = gate();
    const route = workflow("/rest", async (context) => {
      await context.run("never", () => {});
      await refused.passed; // else the second call may end the run before the first is judged
    }, { retries: 0 });
    const response = await fetch(`${messages.http.baseUrl}/v2/trigger/${route.url}`, {
      method: "POST",
      headers: { Authorization: messages.http.authorization, "Upstash-Failure-Callback": destination("/rest/failure", () => new Response()).url },
    });
    const { workflowRunId } = await response.json();
    const { steps } = await ended(workflowRunId, "RUN_FAILED").finally(refused.open);
    assert.match(steps.at(-1).steps[0].errors[0].error, /^trigger rest api is only usable with sdk versions after v1\.0\.0/);
  });
});

describe("a run that fails", { concurrency: true }, () => {
  const fail = async (context) => {
    await context.run("fail", () => {
      throw new Error("broken");
    });
  };

  test("calls its failure function", async () => {
    let told;
    const route = workflow("/failure-function", fail, {
      retries: 1,
      retryDelay: "10",
      failureFunction: ({ context, failStatus, failResponse }) => {
        told = [failStatus, failResponse, context.requestPayload, context.workflowRunId, context.headers.get("x-tenant")];
        return "told";
      },
    });
    const settings = { useFailureFunction: true, retries: 1, retryDelay: "10", body: "payload", headers: { "X-Tenant": "acme" } };
    const id = await start(route, settings);
    assert.deepEqual(JSON.parse((await failureOf(id)).responseBody), { result: "told" });
    assert.deepEqual(told, [500, "broken", "payload", id, "acme"]);
    await route.called(3);
  });

  test("calls its failure URL after a step that succeeded", async () => {
    const elsewhere = destination("/failure-url/elsewhere", () => new Response());
    const route = workflow("/failure-url", async (context) => {
      await context.run("one", () => {});
      await fail(context);
    }, { retries: 0, failureUrl: elsewhere.url });
    const id = await start(route, { failureUrl: elsewhere.url });
    await failureOf(id);
    const [{ body }] = await elsewhere.called(1);
    assert.equal(JSON.parse(body).workflowRunId, id);
    await route.called(2);
  });

  test("is restarted and resumed", async () => {
    let broken = true;
    const route = workflow("/dlq", async (context) => {
      const one = await context.run("one", () => "one");
      return context.run("two", () => (broken ? assert.fail("broken") : `${one} two`));
    }, { retries: 0 });
    const failed = [await start(route), await start(route)];
    for (const id of failed) await ended(id, "RUN_FAILED");
    const { messages } = await client.dlq.list({ filter: { workflowUrl: route.url } });
    assert.equal(messages.length, 2);
    broken = false;
    const resumed = await client.dlq.resume({ dlqId: messages[0].dlqId, retries: 1 });
    const [restarted] = await client.dlq.restart({ dlqId: [messages[1].dlqId] });
    assert.equal(await resultOf(resumed.workflowRunId), "one two");
    assert.equal(await resultOf(restarted.workflowRunId), "one two");
    await route.called(2 * 2 + 2 + 3);
  });
});

describe("its client", () => {
  test("lists runs and cancels them", async () => {
    const route = workflow("/client", async (context) => context.run("never", () => {}), { retries: 0 });
    const ids = [];
    for (let index = 0; index < 5; index++) ids.push(await start(route, { delay: "1h", label: "older-client" }));
    const page = await client.logs({ workflowUrl: route.url, count: 2, state: "RUN_STARTED", label: "older-client" });
    assert.deepEqual(page.runs.map(({ workflowRunId }) => workflowRunId), [ids[4], ids[3]]);
    const rest = await client.logs({ workflowUrl: route.url, cursor: page.cursor });
    assert.deepEqual(rest.runs.map(({ workflowRunId }) => workflowRunId), [ids[2], ids[1], ids[0]]);
    assert.deepEqual(await client.cancel({ ids: ids[0] }), { cancelled: 1 });
    assert.deepEqual(await client.cancel({ ids: ids.slice(0, 2) }), { cancelled: 1 });
    assert.deepEqual(await client.cancel({ urlStartingWith: route.url.slice(0, -1) }), { cancelled: 3 });
    assert.deepEqual(await client.cancel({ all: true }), { cancelled: 0 });
    await route.called(0);
  });
});

testNoMoreCalls();
