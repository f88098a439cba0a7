// Waiting for events, and telling of them: from outside, from inside another run,
// before and after somebody waits. A wait costs the endpoint one call, like a step
// (contract, workflows 4.6, 4.8 and 6.5).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { answered, client, ended, eventually, gate, resultFrom, resultOf, start, testNoMoreCalls, workflow } from "./setup.mjs";

/** Adds an endpoint whose workflow waits for one event and returns what the SDK returns of it. */
function waiter(path, eventId, options) {
  return workflow(path, async (context) => context.waitForEvent("wait", eventId, options));
}

/** Waits until as many runs wait for an event, and returns what the server says of them. */
async function waiters(eventId, count = 1) {
  return eventually(async () => {
    const waiting = await client.getWaiters({ eventId });
    return waiting.length === count ? waiting : undefined;
  });
}

describe("a run that waits", { concurrency: true }, () => {
  test("is listed, is resumed by the event, and is listed no more", async () => {
    const route = waiter("/notified", "notified", { timeout: "1h" });
    const triggered = Date.now();
    const id = await start(route);
    const [listed] = await waiters("notified");
    assert.equal(listed.url, route.url);
    assert.equal(listed.timeoutUrl, route.url);
    assert.deepEqual(listed.headers["Upstash-Workflow-Runid"], [id]);
    assert.equal(listed.headers.Authorization, undefined);
    assert.ok(listed.deadline >= Math.floor(triggered / 1000) + 3600, `the deadline is ${listed.deadline}`);

    const notified = await client.notify({ eventId: "notified", eventData: { order: [7] } });
    assert.equal(notified.length, 1);
    assert.equal(notified[0].workflowRunId, id);
    assert.equal(typeof notified[0].workflowCreatedAt, "number");
    assert.match(notified[0].messageId, /^msg_/);
    assert.equal(notified[0].error, undefined);
    assert.deepEqual(notified[0].waiter, listed);
    assert.deepEqual(await client.getWaiters({ eventId: "notified" }), []);
    assert.deepEqual(await resultOf(id), { eventData: { order: [7] }, timeout: false });
    await route.called(2);
  });

  test("takes events of every kind", async () => {
    const events = { text: "text", number: 17, none: undefined, unicode: "🐎" };
    for (const [name, eventData] of Object.entries(events)) {
      const route = waiter(`/event/${name}`, `event-${name}`);
      const id = await start(route);
      await waiters(`event-${name}`);
      await client.notify({ eventId: `event-${name}`, eventData });
      assert.deepEqual(await resultOf(id), { ...(eventData === undefined ? {} : { eventData }), timeout: false }, name);
      await route.called(2);
    }
  });

  test("goes on without the event when its time is over", async () => {
    const route = waiter("/timed-out", "timed-out", { timeout: 1 });
    const triggered = Date.now();
    assert.deepEqual(await resultFrom(route), { timeout: true });
    const [, resumed] = await route.called(2);
    assert.ok(resumed.at >= triggered + 1000, `it was resumed after ${resumed.at - triggered} ms`);
    assert.deepEqual(await client.notify({ eventId: "timed-out" }), []);
  });

  test("is resumed with all others that wait for the event", async () => {
    const route = waiter("/all", "all");
    const ids = await Promise.all([start(route), start(route), start(route)]);
    await waiters("all", 3);
    const notified = await client.notify({ eventId: "all", eventData: "go" });
    assert.deepEqual(notified.map(({ workflowRunId }) => workflowRunId).sort(), [...ids].sort());
    for (const result of await Promise.all(ids.map(resultOf))) assert.equal(result.eventData, "go");
    await route.called(6);
  });

  test("is resumed alone by an event for its run", async () => {
    const route = waiter("/one-of", "one-of");
    const ids = [await start(route), await start(route)];
    await waiters("one-of", 2);
    const notified = await client.notify({ eventId: "one-of", eventData: "you", workflowRunId: ids[1] });
    assert.equal([notified].flat()[0].workflowRunId, ids[1]);
    assert.equal((await resultOf(ids[1])).eventData, "you");
    const left = await waiters("one-of", 1);
    assert.deepEqual(left[0].headers["Upstash-Workflow-Runid"], [ids[0]]);
    await client.cancel(ids[0]);
    await route.called(3);
  });

  test("waits no more when it is cancelled", async () => {
    const route = waiter("/cancelled", "cancelled");
    const id = await start(route);
    await waiters("cancelled");
    assert.deepEqual(await client.cancel(id), { cancelled: 1 });
    await ended(id, "RUN_CANCELED");
    assert.deepEqual(await client.getWaiters({ eventId: "cancelled" }), []);
    assert.deepEqual(await client.notify({ eventId: "cancelled" }), []);
    await route.called(1);
  });
});

describe("an event that comes before anybody waits", { concurrency: true }, () => {
  /** Adds an endpoint whose workflow waits twice for an event, but not before the test opens the gate. */
  function lateWaiter(path, eventId, waiting) {
    return workflow(path, async (context) => {
      await context.run("before", () => waiting.passed);
      const first = await context.waitForEvent("first", eventId, { timeout: 1 });
      const second = await context.waitForEvent("second", eventId, { timeout: 1 });
      return [first, second];
    });
  }

  test("is kept if it is for a run, one event for each wait", async () => {
    const waiting = gate();
    const route = lateWaiter("/kept", "kept", waiting);
    const id = await start(route);
    const first = await client.notify({ eventId: "kept", eventData: "one", workflowRunId: id });
    assert.equal([first].flat()[0].waiter, undefined);
    await client.notify({ eventId: "kept", eventData: "two", workflowRunId: id });
    waiting.open();
    const results = await resultOf(id);
    assert.deepEqual(results, [{ eventData: "one", timeout: false }, { eventData: "two", timeout: false }]);
    await route.called(4);
  });

  test("is lost if it is for anybody", async () => {
    const waiting = gate();
    const route = lateWaiter("/lost", "lost", waiting);
    const id = await start(route);
    assert.deepEqual(await client.notify({ eventId: "lost", eventData: "one" }), []);
    waiting.open();
    assert.deepEqual(await resultOf(id), [{ timeout: true }, { timeout: true }]);
    await route.called(4);
  });

  test("is refused if it is for a run that is not active", async () => {
    const route = workflow("/over", async (context) => context.run("only", () => "over"));
    const id = await start(route);
    await resultOf(id);
    await assert.rejects(client.notify({ eventId: "over", workflowRunId: id }), answered(404));
    await assert.rejects(client.notify({ eventId: "over", workflowRunId: "wfr_unknown" }), answered(404));
    await route.called(2);
  });
});

describe("a run tells of an event", { concurrency: true }, () => {
  test("for which another waits", async () => {
    const waiting = waiter("/told", "told");
    const telling = workflow("/telling", async (context) => context.notify("tell", "told", { from: "a run" }));
    const id = await start(waiting);
    await waiters("told");
    const { eventId, eventData, notifyResponse } = await resultFrom(telling);
    assert.deepEqual([eventId, eventData], ["told", { from: "a run" }]);
    assert.deepEqual(notifyResponse.map(({ workflowRunId }) => workflowRunId), [id]);
    assert.deepEqual(await resultOf(id), { eventData: { from: "a run" }, timeout: false });
    await telling.called(2);
    await waiting.called(2);
  });

  test("for which nobody waits", async () => {
    const route = workflow("/telling-nobody", async (context) => context.notify("tell", "nobody", "text"));
    assert.deepEqual(await resultFrom(route), { eventId: "nobody", eventData: "text", notifyResponse: [] });
    await route.called(2);
  });

  test("for a run that will wait", async () => {
    const waiting = gate();
    const later = workflow("/told-early", async (context) => {
      await context.run("before", () => waiting.passed);
      return context.waitForEvent("wait", "told-early");
    });
    const id = await start(later);
    const telling = workflow("/telling-early", async (context) => context.notify("tell", "told-early", "text", id));
    await resultFrom(telling);
    waiting.open();
    assert.equal((await resultOf(id)).eventData, "text");
    await later.called(3);
    await telling.called(2);
  });

  // 1 to plan, 2 plans, 2 results; 1 for the step after the group.
  test("for which a branch of its own waits", async () => {
    const route = workflow("/itself", async (context) => {
      const [{ eventData }] = await Promise.all([
        context.waitForEvent("wait", "itself"),
        context.run("tell", async () => {
          await waiters("itself");
          await client.notify({ eventId: "itself", eventData: "me" });
        }),
      ]);
      await context.run("wait for results that were overtaken", () => route.reached(5));
      return eventData;
    });
    assert.equal(await resultFrom(route), "me");
    await route.called(6);
  });
});

testNoMoreCalls();
