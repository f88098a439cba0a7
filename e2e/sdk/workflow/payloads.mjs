// Payloads beyond what fits into a delivery: then the body of a delivery is empty
// and the endpoint asks the server for the steps of its run. The server of this
// area takes bodies and answers of 16 MiB (contract, workflows 3.4).
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, test } from "node:test";
import { destination, resultOf, start, testNoMoreCalls, workflow } from "./setup.mjs";

/** Payloads of which one alone makes a delivery too large: it has them in base64. */
const large = text(2.5);
const veryLarge = text(5);

/** Returns a text of some MiB. */
function text(size) {
  return "0123456789abcdef".repeat((size * 1024 * 1024) / 16);
}

function digest(text) {
  return createHash("sha256").update(text).digest("hex");
}

/**
 * Starts a run, waits for as many calls of its endpoint, and returns its result: a
 * log with large payloads is not to be asked for over and over.
 */
async function resultAfter(count, route, settings) {
  const id = await start(route, settings);
  await route.called(count);
  return resultOf(id);
}

/** Asserts that all deliveries after the first ones were empty. */
function assertLazy(calls, inline) {
  const sizes = calls.map(({ body }) => body.length);
  assert.deepEqual(sizes.slice(inline), sizes.slice(inline).map(() => 0), `the bodies have ${sizes} characters`);
  for (const { headers } of calls.slice(inline)) assert.equal(headers["content-length"], "0");
  assert.ok(sizes.slice(0, inline).every((size) => size > 0), `the bodies have ${sizes} characters`);
}

describe("the endpoint fetches the steps", () => {
  test("when the initial payload is large", async () => {
    const route = workflow("/initial", async (context) => {
      const sum = await context.run("digest", () => digest(context.requestPayload));
      return sum === digest(context.requestPayload) && sum;
    });
    assert.equal(await resultAfter(2, route, { body: veryLarge }), digest(veryLarge));
    assertLazy(route.calls, 0);
  });

  test("when a result is large, up to the one that is delivered", async () => {
    const route = workflow("/group", async (context) => {
      const [a, b] = await Promise.all([context.run("a", () => large), context.run("b", () => "small")]);
      await context.run("wait for results that were overtaken", () => route.reached(5));
      return digest(a + b);
    });
    assert.equal(await resultAfter(6, route, { body: "small" }), digest(large + "small"));
    assertLazy(route.calls.slice(-1), 0);
  });

  // The delivery that brings the answer is not empty: this SDK parses it before it would fetch it.
  test("when the answer of a call is large", async () => {
    const third = destination("/call/third", () => new Response(large, { headers: { "Content-Type": "text/plain" } }));
    const route = workflow("/call", async (context) => {
      const { body } = await context.call("call", { url: third.url });
      return context.run("digest", () => digest(body));
    });
    assert.equal(await resultAfter(4, route), digest(large));
    assertLazy(route.calls, 2);
    await third.called(1);
  });

  test("but a failure function gets everything at once", async () => {
    let payload;
    const route = workflow("/failing", async (context) => {
      await context.run("fail", () => assert.fail("broken"));
    }, { failureFunction: ({ context }) => void (payload = context.requestPayload) });
    await start(route, { body: large });
    const [first, callback] = await route.called(2);
    assert.equal(callback.status, 200);
    assert.equal(digest(payload), digest(large));
    assert.equal(first.body.length, 0);
    assert.ok(callback.body.length > large.length);
  });
});

testNoMoreCalls();
