// Runs that start other runs and wait for what they return. An invocation costs
// the parent one call more, as a step does (contract, workflows 4.9).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { WorkflowNonRetryableError } from "@upstash/workflow";
import { client, createWorkflow, ended, eventually, gate, logOf, resultFrom, resultOf, start, testNoMoreCalls, workflows } from "./setup.mjs";

/** A workflow that invokes another and returns what the SDK returns of it. */
function invoker(child, settings) {
  return createWorkflow(async (context) => context.invoke("invoke", { workflow: child, retries: 0, ...settings }));
}

describe("a run invokes", { concurrency: true }, () => {
  test("three deep, each with its own settings", async () => {
    const leaf = createWorkflow(async (context) => {
      const seen = await context.run("leaf", () => ({
        payload: context.requestPayload,
        id: context.workflowRunId,
        labels: context.labels,
        depth: context.headers.get("x-depth"),
        tenant: context.headers.get("x-tenant"),
      }));
      return { ...seen, count: context.executor.invokeCount };
    });
    const middle = createWorkflow(async (context) => {
      const { body, isFailed, isCanceled } = await context.invoke("invoke the leaf", {
        workflow: leaf,
        body: { order: context.requestPayload },
        headers: { "X-Depth": "3" },
        label: ["leaf", "eu"],
        workflowRunId: "leaf-of-a-chain",
        retries: 0,
      });
      return { leaf: body, isFailed, isCanceled };
    });
    const root = invoker(middle, { body: 7 });
    const routes = workflows("/chain", { root, middle, leaf });
    const id = await start(routes.root, { headers: { "X-Tenant": "acme" } });
    const { body } = await resultOf(id);
    assert.deepEqual(body, {
      leaf: { payload: { order: 7 }, id: "wfr_leaf-of-a-chain", labels: ["leaf", "eu"], depth: "3", tenant: null, count: 2 },
      isFailed: false,
      isCanceled: false,
    });
    for (const route of Object.values(routes)) await route.called(2);

    const { invoker: parent, labels } = await logOf("wfr_leaf-of-a-chain");
    assert.equal(parent.workflowUrl, routes.middle.url);
    assert.deepEqual(labels, ["leaf", "eu"]);
    const { invoker: grandparent } = await logOf(parent.workflowRunId);
    const { workflowRunCreatedAt, steps } = await logOf(id);
    assert.deepEqual(grandparent, { workflowRunId: id, workflowUrl: routes.root.url, workflowRunCreatedAt });
    const [invocation] = steps.at(-1).steps;
    assert.deepEqual([invocation.stepType, invocation.state], ["Invoke", "STEP_SUCCESS"]);
    assert.equal(invocation.invokedWorkflowUrl, routes.middle.url);
    assert.equal(invocation.invokedWorkflowRunId, parent.workflowRunId);
  });

  test("one that returns nothing", async () => {
    const child = createWorkflow(async (context) => void (await context.run("only", () => {})));
    const routes = workflows("/nothing", { parent: invoker(child), child });
    assert.deepEqual(await resultFrom(routes.parent), { isFailed: false, isCanceled: false });
    await routes.parent.called(2);
    await routes.child.called(2);
  });

  test("one that fails", async () => {
    const child = createWorkflow(async (context) => {
      await context.run("fail", () => assert.fail("broken"));
    });
    const routes = workflows("/failing", { parent: invoker(child), child });
    assert.deepEqual(await resultFrom(routes.parent), { isFailed: true, isCanceled: false });
    await routes.parent.called(2);
    await routes.child.called(2); // the second is its failure callback
  });

  test("one that is cancelled", async () => {
    const child = createWorkflow(async (context) => {
      await context.waitForEvent("wait", "never");
    });
    const routes = workflows("/cancelled", { parent: invoker(child, { workflowRunId: "cancelled-child" }), child });
    const id = await start(routes.parent);
    await routes.child.called(1);
    assert.deepEqual(await client.cancel("wfr_cancelled-child"), { cancelled: 1 });
    assert.deepEqual(await resultOf(id), { isFailed: false, isCanceled: true });
    await routes.parent.called(2);
  });

  // 1 to plan, 2 plans, 2 results; 1 for the step after the group.
  test("two in parallel", async () => {
    const child = createWorkflow(async (context) => context.run("double", () => context.requestPayload * 2));
    const parent = createWorkflow(async (context) => {
      const invoke = (body) => context.invoke(`invoke ${body}`, { workflow: child, body, retries: 0 });
      const results = await Promise.all([invoke(1), invoke(2)]);
      await context.run("wait for results that were overtaken", () => routes.parent.reached(5));
      return results.map(({ body }) => body);
    });
    const routes = workflows("/two", { parent, child });
    assert.deepEqual(await resultFrom(routes.parent), [2, 4]);
    await routes.parent.called(6);
    await routes.child.called(4);
  });
});

describe("a parent that ends first", { concurrency: true }, () => {
  // The grandparent: 3 steps and 1 to finish. The parent: 1 to plan, 2 plans, 1 failure callback. The child: 3.
  test("by failing, leaves its child alone and is told of its end in the log only", async () => {
    const failed = gate();
    const child = createWorkflow(async (context) => {
      await context.run("wait for the parent's end", () => failed.passed);
      await context.run("go on", () => {});
    });
    const parent = createWorkflow(async (context) => {
      await Promise.all([
        context.invoke("invoke", { workflow: child, workflowRunId: "child-alone", retries: 0 }),
        context.run("fail", async () => {
          await routes.child.reached(1);
          throw new WorkflowNonRetryableError("broken");
        }),
      ]);
    });
    const grandparent = createWorkflow(async (context) => {
      await context.run("before", () => {});
      const { isFailed } = await context.invoke("invoke", { workflow: parent, workflowRunId: "parent-first", retries: 0 });
      await context.run("let the child go on", () => failed.open());
      return isFailed;
    });
    const routes = workflows("/orphan", { grandparent, parent, child });
    assert.equal(await resultFrom(routes.grandparent), true);
    await ended("wfr_child-alone", "RUN_SUCCESS");
    await routes.grandparent.called(4);
    await routes.parent.called(4);
    await routes.child.called(3);

    const { steps } = await eventually(async () => {
      const run = await logOf("wfr_parent-first");
      return stateOf(run, "invoke") === "STEP_SUCCESS" ? run : undefined;
    });
    assert.deepEqual(steps.map(({ type }) => type), ["sequential", "parallel"]);
    assert.equal(stateOf({ steps }, "fail"), "STEP_FAILED");
  });

  test("by being cancelled, leaves its child alone", async () => {
    const cancelled = gate();
    const child = createWorkflow(async (context) => {
      await context.run("wait for the parent's end", () => cancelled.passed);
      return "done";
    });
    const routes = workflows("/left-alone", { parent: invoker(child, { workflowRunId: "left-alone" }), child });
    const id = await start(routes.parent);
    await routes.child.reached(1);
    await client.cancel(id);
    await ended(id, "RUN_CANCELED");
    cancelled.open();
    assert.equal(await resultOf("wfr_left-alone"), "done");
    await routes.parent.called(1);
    await routes.child.called(2);
  });
});

testNoMoreCalls();

/** The state of a step in a run's log. */
function stateOf({ steps }, name) {
  return steps.flatMap((group) => group.steps).find(({ stepName }) => stepName === name)?.state;
}
