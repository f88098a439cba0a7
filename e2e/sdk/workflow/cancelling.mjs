// Cancelling runs, from inside and from outside, one and many. The tests that
// cancel by filters mark their runs with URLs and labels of their own; the one
// that cancels everything comes last (contract, workflows 4.4 and 6.2).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { answered, client, ended, gate, logOf, start, testNoMoreCalls, workflow } from "./setup.mjs";

/** Adds an endpoint for runs that are cancelled before they would begin. */
function idle(path) {
  return workflow(path, async (context) => context.run("never", () => {}));
}

/** Starts a run that begins in an hour. */
function later(route, settings) {
  return start(route, { delay: "1h", ...settings });
}

async function statesOf(ids) {
  const runs = await Promise.all(ids.map(logOf));
  return runs.map(({ workflowState }) => workflowState.replace("RUN_", "")).join(" ");
}

describe("a run is cancelled", { concurrency: true }, () => {
  test("by itself, which is no failure", async () => {
    let failures = 0;
    const route = workflow("/itself", async (context) => {
      await context.run("one", () => {});
      await context.cancel();
    }, { failureFunction: () => void failures++ });
    const id = await start(route);
    const run = await ended(id, "RUN_CANCELED");
    assert.equal(run.dlqId, undefined);
    assert.equal(run.failureFunction, undefined);
    assert.equal(typeof run.workflowRunCompletedAt, "number");
    await route.called(2);
    assert.equal(failures, 0);
    assert.deepEqual((await client.dlq.list({ filter: { workflowRunId: id } })).messages, []);
  });

  test("before it begins", async () => {
    const route = idle("/before");
    const id = await later(route);
    assert.deepEqual(await client.cancel(id), { cancelled: 1 });
    await ended(id, "RUN_CANCELED");
    await route.called(0);
  });

  test("while the endpoint executes a step, whose result is refused", async () => {
    const cancelled = gate();
    const route = workflow("/in-flight", async (context) => {
      await context.run("one", () => cancelled.passed);
      await context.run("two", () => {});
    });
    const id = await start(route);
    await route.reached(1);
    assert.deepEqual(await client.cancel({ ids: id }), { cancelled: 1 });
    cancelled.open();
    const [call] = await route.called(1);
    assert.equal(call.status, 200);
    await ended(id, "RUN_CANCELED");
  });

  test("while it sleeps", async () => {
    const route = workflow("/asleep", async (context) => context.sleep("sleep", "1h"));
    const id = await start(route);
    await route.called(1);
    assert.deepEqual(await client.cancel([id]), { cancelled: 1 });
    const { steps } = await ended(id, "RUN_CANCELED");
    assert.equal(steps.at(-1).steps.at(-1).state, "STEP_CANCELED");
  });

  test("while its endpoint fails", async () => {
    const route = workflow("/fails", async (context) => {
      await context.run("fail", () => assert.fail("broken"));
    });
    const id = await start(route, { retries: 3, retryDelay: "3600000" });
    await route.called(1);
    assert.deepEqual(await client.cancel(id), { cancelled: 1 });
    const { steps } = await ended(id, "RUN_CANCELED");
    assert.deepEqual(steps.at(-1).steps.map(({ state }) => state), ["STEP_CANCELED"]);
  });

  test("once, and not after its end", async () => {
    const route = idle("/once");
    const finished = await start(route);
    await ended(finished, "RUN_SUCCESS");
    const id = await later(route);
    assert.deepEqual(await client.cancel([id, finished, "wfr_unknown"]), { cancelled: 1 });
    assert.deepEqual(await client.cancel([id, finished, "wfr_unknown"]), { cancelled: 0 });
    assert.equal(await statesOf([id, finished]), "CANCELED SUCCESS");
    await route.called(2);
  });
});

describe("runs are cancelled", { concurrency: true }, () => {
  /** Starts runs of three URLs, of which two begin alike. */
  async function three(prefix, settings) {
    const routes = ["/a", "/ab", "/b"].map((path) => idle(prefix + path));
    const ids = [];
    for (const route of routes) ids.push(await later(route, settings));
    return { routes, ids };
  }

  test("by a URL", async () => {
    const { routes, ids } = await three("/by-url");
    assert.deepEqual(await client.cancel({ filter: { workflowUrl: routes[0].url } }), { cancelled: 1 });
    assert.equal(await statesOf(ids), "CANCELED STARTED STARTED");
  });

  test("by what their URLs start with", async () => {
    const { routes, ids } = await three("/by-prefix");
    assert.deepEqual(await client.cancel({ filter: { workflowUrlStartingWith: routes[0].url } }), { cancelled: 2 });
    assert.equal(await statesOf(ids), "CANCELED CANCELED STARTED");
    assert.deepEqual(await client.cancel({ urlStartingWith: routes[2].url }), { cancelled: 1 });
  });

  test("by their ids, whatever else is given", async () => {
    const { ids } = await three("/by-ids");
    assert.deepEqual(await client.cancel({ workflowRunIds: ids.slice(1) }), { cancelled: 2 });
    assert.equal(await statesOf(ids), "STARTED CANCELED CANCELED");
    assert.deepEqual(await client.cancel({ ids: ids[0] }), { cancelled: 1 });
  });

  test("by a label, a flow-control key, a time and all of them together", async () => {
    const { routes, ids } = await three("/by-filter", { label: ["cancelled", "x"], flowControl: { key: "cancelled", parallelism: 1 } });
    const { workflowRunCreatedAt } = await logOf(ids[2]);
    const all = { label: "cancelled", flowControlKey: "cancelled", fromDate: workflowRunCreatedAt, toDate: new Date(workflowRunCreatedAt) };
    for (const filter of [{ ...all, label: "cancel" }, { ...all, flowControlKey: "x" }, { ...all, fromDate: Date.now() + 60_000, toDate: undefined }]) {
      assert.deepEqual(await client.cancel({ filter }), { cancelled: 0 });
    }
    const url = { workflowUrl: routes[2].url };
    assert.deepEqual(await client.cancel({ filter: { ...all, ...url } }), { cancelled: 1 });
    assert.deepEqual(await client.cancel({ filter: { label: ["x", "y"], callerIp: "127.0.0.1" } }), { cancelled: 2 });
    assert.equal(await statesOf(ids), "CANCELED CANCELED CANCELED");
  });

  test("by the host and the path of their URLs", async () => {
    const { routes, ids } = await three("/by-place");
    const { host, pathname } = new URL(routes[0].url);
    assert.deepEqual(await client.cancel({ filter: { host: "elsewhere.example", path: pathname } }), { cancelled: 0 });
    assert.deepEqual(await client.cancel({ filter: { host, path: [pathname, "/elsewhere"] } }), { cancelled: 1 });
    assert.equal(await statesOf(ids), "CANCELED STARTED STARTED");
  });

  test("but not by a filter that is unknown", async () => {
    await assert.rejects(client.cancel({ filter: { labeel: "x" } }), answered(400));
  });
});

test("all runs are cancelled, a hundred at a time", async () => {
  await client.cancel({ all: true });
  const route = idle("/hundreds");
  const runs = await client.trigger(Array.from({ length: 105 }, () => ({ url: route.url, delay: "1h" })));
  assert.deepEqual(await client.cancel({ all: true, count: 2 }), { cancelled: 2 });
  assert.deepEqual(await client.cancel({ all: true }), { cancelled: 100 });
  assert.deepEqual(await client.cancel({ all: true }), { cancelled: 3 });
  assert.deepEqual(await client.cancel({ all: true }), { cancelled: 0 });
  assert.equal(new Set(runs.map(({ workflowRunId }) => workflowRunId)).size, 105);
  await route.called(0);
});

testNoMoreCalls();
