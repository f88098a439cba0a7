// The log of runs: how it groups their steps, and how runs are found in it
// (contract, workflows 6.3 and 8.4).
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { client, createWorkflow, destination, ended, eventually, gate, logOf, resultOf, start, testNoMoreCalls, workflow, workflows } from "./setup.mjs";

/** The groups of a run's log as one text: the type of each, and the names and states of its steps. */
function outline({ steps }) {
  return steps.map(({ type, steps }) => `${type}: ${steps.map(({ stepName, state }) => `${stepName ?? "-"} ${state.replace("STEP_", "")}`).join(", ")}`);
}

/** Waits until the log of a run has an outline. */
async function outlined(workflowRunId, want) {
  let got;
  const look = async () => {
    const run = await logOf(workflowRunId);
    got = run && outline(run);
    return JSON.stringify(got) === JSON.stringify(want) ? run : undefined;
  };
  return eventually(look, () => `${JSON.stringify(want)}, not ${JSON.stringify(got)}`);
}

/** What a step's log says besides what every step's does. */
function details({ messageId, createdAt, headers, retries, retryDelay, state, callType, concurrent, ...rest }) {
  assert.match(messageId, /^msg_/);
  assert.equal(typeof createdAt, "number");
  return rest;
}

describe("the log of a run", { concurrency: true }, () => {
  test("begins with how it was started", async () => {
    const route = workflow("/initial", async (context) => context.run("one", () => "result"));
    const id = await start(route, { body: '{"order":7}', headers: { "X-Tenant": "acme" }, retries: 2, retryDelay: "10", label: ["a", "b"] });
    await resultOf(id);
    const run = await logOf(id);
    assert.deepEqual(outline(run), ["sequential: init SUCCESS", "sequential: one SUCCESS"]);
    const [{ messageId, createdAt, headers, ...initial }] = run.steps[0].steps;
    assert.equal(messageId, route.calls[0].headers["upstash-message-id"]);
    assert.ok(createdAt >= run.workflowRunCreatedAt);
    assert.deepEqual(headers["X-Tenant"], ["acme"]);
    assert.deepEqual(headers["Content-Type"], ["application/json"]);
    assert.deepEqual(headers["Upstash-Workflow-Sdk-Version"], ["1"]);
    assert.deepEqual(initial, {
      stepName: "init",
      stepType: "Initial",
      callType: "step",
      concurrent: 1,
      out: '{"order":7}',
      retries: 2,
      retryDelay: "10",
      state: "STEP_SUCCESS",
    });
    const { steps, workflowRunCreatedAt, workflowRunCompletedAt, ...rest } = run;
    assert.ok(workflowRunCompletedAt >= workflowRunCreatedAt);
    assert.deepEqual(rest, {
      workflowRunId: id,
      workflowUrl: route.url,
      workflowState: "RUN_SUCCESS",
      workflowRunCallerIp: "127.0.0.1",
      workflowRunResponse: '"result"',
      label: "a",
      labels: ["a", "b"],
    });
  });

  test("tells of steps of every kind", async () => {
    const third = destination("/kinds/third", () => new Response("called", { status: 201, headers: { "Content-Type": "text/plain" } }));
    const child = createWorkflow(async (context) => context.run("of the child", () => "done"));
    const parent = createWorkflow(async (context) => {
      await context.run("run", () => ({ order: 7 }));
      await context.sleep("sleep", "1s");
      await context.sleepUntil("sleep until", 1_700_000_000.7);
      await context.call("call", { url: third.url, method: "PUT", body: "text", headers: { "X-Key": "k" } });
      await context.waitForEvent("wait", "never", { timeout: 1 });
      await context.notify("notify", "never", "text");
      const webhook = await context.createWebhook("create webhook");
      await context.waitForWebhook("wait for webhook", webhook, "1s");
      await context.invoke("invoke", { workflow: child, body: "payload", workflowRunId: "logged-child" });
    });
    const routes = workflows("/kinds", { parent, child });
    const id = await start(routes.parent);
    await resultOf(id);
    const run = await logOf(id);
    const names = ["init", "run", "sleep", "sleep until", "call", "wait", "notify", "create webhook", "wait for webhook", "invoke"];
    assert.deepEqual(outline(run), names.map((name) => `sequential: ${name} SUCCESS`));
    const steps = Object.fromEntries(run.steps.map(({ steps: [step] }) => [step.stepName, step]));
    for (const [index, name] of names.entries()) {
      assert.equal(steps[name].stepId, index || undefined, name);
      assert.equal(steps[name].concurrent, 1, name);
    }
    assert.deepEqual(details(steps.run), { stepId: 1, stepName: "run", stepType: "Run", out: '{"order":7}' });
    assert.deepEqual(details(steps.sleep), { stepId: 2, stepName: "sleep", stepType: "SleepFor", sleepFor: 1 });
    assert.deepEqual(details(steps["sleep until"]), { stepId: 3, stepName: "sleep until", stepType: "SleepUntil", sleepUntil: 1_700_000_000 });

    const { callHeaders, callResponseHeaders, out, ...call } = details(steps.call);
    assert.deepEqual(callHeaders["X-Key"], ["k"]);
    assert.deepEqual(callResponseHeaders["Content-Type"], ["text/plain"]);
    assert.equal(JSON.parse(out).body, "called");
    assert.deepEqual(call, {
      stepId: 4,
      stepName: "call",
      stepType: "Call",
      callUrl: third.url,
      callMethod: "PUT",
      callBody: "text",
      callResponseStatus: 201,
      callResponseBody: "called",
    });

    const { waitTimeoutDeadline, ...wait } = details(steps.wait);
    assert.ok(waitTimeoutDeadline >= Math.floor(run.workflowRunCreatedAt / 1000));
    assert.deepEqual(wait, { stepId: 5, stepName: "wait", stepType: "Wait", waitEventId: "never", waitTimeoutDuration: "1s", waitTimeout: true });
    assert.deepEqual(JSON.parse(steps.notify.out), { eventId: "never", eventData: "text", notifyResponse: [] });
    assert.match(JSON.parse(steps["create webhook"].out).webhookUrl, new RegExp(`/v2/workflows/hooks/[^/]+/${id}/evt_`));
    assert.equal(steps["wait for webhook"].waitTimeout, true);

    const { invokedWorkflowCreatedAt, invokedWorkflowRunHeaders, out: invocation, ...invoke } = details(steps.invoke);
    assert.equal(typeof invokedWorkflowCreatedAt, "number");
    assert.deepEqual(JSON.parse(invocation), { body: '"done"', isFailed: false, isCanceled: false });
    assert.deepEqual(invoke, {
      stepId: 9,
      stepName: "invoke",
      stepType: "Invoke",
      invokedWorkflowRunId: "wfr_logged-child",
      invokedWorkflowUrl: routes.child.url,
      invokedWorkflowRunBody: "payload",
    });
  });

  test("tells of what is going on", async () => {
    const executing = gate();
    const route = workflow("/progress", async (context) => {
      await context.run("one", () => executing.passed);
      const { eventData } = await context.waitForEvent("wait", "progress");
      return eventData;
    });
    const id = await start(route);
    await route.reached(1);
    await outlined(id, ["sequential: init SUCCESS", "next: - PROGRESS"]);
    executing.open();
    const waiting = await outlined(id, ["sequential: init SUCCESS", "sequential: one SUCCESS", "sequential: wait PROGRESS"]);
    assert.equal(waiting.workflowState, "RUN_STARTED");
    assert.equal(waiting.workflowRunCompletedAt, undefined);
    assert.equal(waiting.steps.at(-1).steps[0].stepType, "Wait");
    await client.notify({ eventId: "progress", eventData: "go" });
    assert.equal(await resultOf(id), "go");
    await outlined(id, ["sequential: init SUCCESS", "sequential: one SUCCESS", "sequential: wait SUCCESS"]);
  });

  // The endpoint says in the header Upstash-Error-Step-Name which step it was.
  test("tells of what is to come and of attempts that failed", async () => {
    const route = workflow("/retrying", async (context) => {
      await context.run("fail", () => assert.fail("broken"));
    });
    const id = await start(route, { retries: 3, retryDelay: "3600000" });
    const { steps } = await outlined(id, ["sequential: init SUCCESS", "next: fail RETRY"]);
    const [next] = steps[1].steps;
    assert.deepEqual([next.retries, next.retryDelay, next.errors.length, next.errors[0].status], [3, "3600000", 1, 500]);
    await client.cancel(id);
    await outlined(id, ["sequential: init SUCCESS", "next: fail CANCELED"]);

    const delayed = await start(route, { delay: "1h" });
    await outlined(delayed, ["sequential: init SUCCESS", "next: - PROGRESS"]);
    await client.cancel(delayed);
    await outlined(delayed, ["sequential: init SUCCESS", "next: - CANCELED"]);
  });

  test("tells of groups while they are executed and after", async () => {
    const executing = gate();
    const route = workflow("/group", async (context) => {
      await context.run("before", () => {});
      await Promise.all([context.run("a", () => "a"), context.run("b", () => executing.passed), context.sleep("c", 1)]);
      await context.run("after", () => {});
    });
    const id = await start(route);
    await route.reached(4);
    const before = ["sequential: init SUCCESS", "sequential: before SUCCESS"];
    await outlined(id, [...before, "parallel: a SUCCESS, b PROGRESS, c SUCCESS"]);
    executing.open();
    await resultOf(id);
    const { steps } = await outlined(id, [...before, "parallel: a SUCCESS, b SUCCESS, c SUCCESS", "sequential: after SUCCESS"]);
    assert.deepEqual(steps[2].steps.map(({ stepId, concurrent }) => [stepId, concurrent]), [[2, 3], [3, 3], [4, 3]]);
  });

  test("hides what is to be redacted", async () => {
    const redacted = (value) => "REDACTED:" + createHash("sha256").update(value).digest("hex");
    const route = workflow("/redacted", async (context) => {
      assert.equal(context.headers.get("x-secret"), "hidden");
      await context.run("one", () => context.requestPayload);
      await context.run("fail", () => assert.fail("broken"));
    });
    const id = await start(route, {
      body: "secret",
      headers: { "X-Secret": "hidden", "X-Tenant": "acme" },
      redact: { body: true, header: ["X-Secret"] },
    });
    const { steps } = await ended(id, "RUN_FAILED");
    const [initial] = steps[0].steps;
    assert.equal(initial.out, redacted("secret"));
    assert.deepEqual(initial.headers["X-Secret"], [redacted("hidden")]);
    assert.deepEqual(initial.headers["X-Tenant"], ["acme"]);
    assert.ok(!JSON.stringify(steps[1].steps[0]).includes("secret"));
    const { messages } = await client.dlq.list({ filter: { workflowRunId: id } });
    assert.equal(messages.length, 1);
    assert.ok(!JSON.stringify(messages).includes('"secret') && !JSON.stringify(messages).includes('"hidden"'));
  });
});

describe("runs are found", () => {
  /** The ids of runs, as they are listed. */
  const ids = ({ runs }) => runs.map(({ workflowRunId }) => workflowRunId);

  test("by filters, and page by page", async (t) => {
    const route = workflow("/found", async (context) => {
      await context.run("one", () => {
        if (context.requestPayload === "fail") throw new Error("broken");
      });
    });
    const settings = { label: ["found", "eu"], flowControl: { key: "found", parallelism: 1 } };
    const failed = await start(route, { body: "fail", ...settings });
    const { workflowRunCreatedAt } = await ended(failed, "RUN_FAILED");
    const others = [];
    for (let index = 0; index < 12; index++) {
      others.push(await start(route, { body: "pass" }));
      await ended(others.at(-1), "RUN_SUCCESS");
    }
    const newestFirst = [...[...others].reverse(), failed];
    const workflowUrl = route.url;

    await t.test("by their URL, ten to a page", async () => {
      const first = await client.logs({ workflowUrl });
      assert.deepEqual(ids(first), newestFirst.slice(0, 10));
      const second = await client.logs({ workflowUrl, cursor: first.cursor });
      assert.deepEqual(ids(second), newestFirst.slice(10));
      assert.ok(!second.cursor, `there is a cursor ${second.cursor}`);
      const all = [];
      let cursor;
      do {
        const page = await client.logs({ filter: { workflowUrl }, count: 4, cursor });
        assert.ok(page.runs.length <= 4);
        all.push(...ids(page));
        ({ cursor } = page);
      } while (cursor);
      assert.deepEqual(all, newestFirst);
      assert.deepEqual(ids(await client.logs({ workflowUrl, count: 1000 })), newestFirst.slice(0, 10));
    });

    const last = await logOf(others[0]);
    const found = {
      workflowRunId: failed,
      state: "RUN_FAILED",
      label: ["found", "x"],
      flowControlKey: "found",
      toDate: new Date(workflowRunCreatedAt),
      workflowCreatedAt: workflowRunCreatedAt,
      messageId: route.of(failed)[0].headers["upstash-message-id"],
    };
    const missed = {
      workflowRunId: "wfr_foun",
      state: "RUN_CANCELED",
      label: "foun",
      flowControlKey: "foun",
      toDate: workflowRunCreatedAt - 1,
      workflowCreatedAt: workflowRunCreatedAt - 1,
      messageId: "msg_unknown",
      callerIp: "203.0.113.1",
    };
    for (const [name, value] of Object.entries(found)) {
      await t.test(`by ${name}`, async () => {
        assert.deepEqual(ids(await client.logs({ filter: { workflowUrl, [name]: value } })), [failed]);
        assert.deepEqual(ids(await client.logs({ workflowUrl, [name]: value })), [failed]);
      });
    }
    for (const [name, value] of Object.entries(missed)) {
      await t.test(`not by another ${name}`, async () => {
        assert.deepEqual(ids(await client.logs({ filter: { workflowUrl, [name]: value } })), []);
      });
    }
    await t.test("from a time on", async () => {
      const page = await client.logs({ filter: { workflowUrl, fromDate: last.workflowRunCreatedAt, callerIp: "127.0.0.1" }, count: 10 });
      assert.deepEqual(ids(page), newestFirst.slice(0, 10));
    });
    await t.test("all of them", async () => {
      const { runs } = await client.logs();
      assert.equal(runs.length, 10);
    });
  });
});

testNoMoreCalls();
