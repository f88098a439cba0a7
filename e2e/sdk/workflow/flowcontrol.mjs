// Flow control of runs: a slot is held by a call of the endpoint, not by a run
// (contract, workflows 8.1).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { client, destination, eventually, resultFrom, resultOf, start, testNoMoreCalls, workflow } from "./setup.mjs";

/** How long a step takes that would be seen next to another one, in milliseconds. */
const MOMENT = 30;

function moment() {
  return new Promise((resolve) => setTimeout(resolve, MOMENT));
}

/** Starts runs and waits for all of them. */
async function finish(count, route, settings) {
  const ids = await Promise.all(Array.from({ length: count }, () => start(route, settings)));
  await Promise.all(ids.map(resultOf));
}

describe("parallelism limits", { concurrency: true }, () => {
  for (const parallelism of [1, 2]) {
    test(`the calls of an endpoint to ${parallelism}`, async () => {
      const route = workflow(`/limited/${parallelism}`, async (context) => {
        await context.run("one", moment);
        await context.run("two", moment);
      });
      await finish(5, route, { flowControl: { key: `limited-${parallelism}`, parallelism } });
      assert.equal(route.peak, parallelism);
      await route.called(15);
    });
  }

  test("the branches of a group, too", async () => {
    const route = workflow("/limited/group", async (context) => {
      await Promise.all(["a", "b", "c", "d"].map((name) => context.run(name, moment)));
    });
    await resultFrom(route, { flowControl: { key: "limited-group", parallelism: 1 } });
    assert.equal(route.peak, 1);
  });

  test("nothing without a key", async () => {
    const route = workflow("/unlimited", async (context) => {
      await context.run("all at the same time", () => route.reached(4));
    });
    await finish(4, route);
    assert.ok(route.peak >= 4);
    await route.called(8);
  });

  test("not those that wait or sleep", async () => {
    const flowControl = { key: "waiting", parallelism: 1 };
    const waiting = workflow("/waiting", async (context) => (await context.waitForEvent("wait", "flow")).eventData);
    const sleeping = workflow("/sleeping", async (context) => context.sleep("sleep", 1));
    const working = workflow("/working", async (context) => context.run("work", () => "done"));
    const waits = await start(waiting, { flowControl });
    const sleeps = await start(sleeping, { flowControl });
    await eventually(async () => ((await client.getWaiters({ eventId: "flow" })).length === 1 ? true : undefined));
    assert.equal(await resultFrom(working, { flowControl }), "done");
    await client.notify({ eventId: "flow", eventData: "go" });
    assert.equal(await resultOf(waits), "go");
    await resultOf(sleeps);
    await waiting.called(2);
    await sleeping.called(2);
    await working.called(2);
  });

  test("the requests of calls by their own key", async () => {
    const third = destination("/third", async () => {
      await moment();
      return new Response();
    });
    const route = workflow("/calling", async (context) => {
      await context.call("call", { url: third.url, flowControl: { key: "third", parallelism: 1 } });
    });
    await finish(5, route);
    assert.equal(third.peak, 1);
    await third.called(5);
    await route.called(15);
  });
});

describe("a rate", () => {
  test("spreads the calls of an endpoint", async () => {
    const route = workflow("/rate", async (context) => {
      for (const name of ["one", "two", "three"]) await context.run(name, () => {});
    });
    const triggered = Date.now();
    await resultFrom(route, { flowControl: { key: "rate", rate: 2, period: "1s" } });
    const [, , third] = await route.called(4);
    assert.ok(third.at >= triggered + 1000, `the third call came after ${third.at - triggered} ms`);
  });
});

testNoMoreCalls();
