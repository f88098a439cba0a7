// Steps that the endpoint executes itself, one after another and in parallel, and
// sleeping. A run costs one call per step and one that only finishes it; a group
// of n steps costs n calls to plan it and n with results (contract, workflows 3.1
// to 3.3 and 4.1 to 4.3).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createWorkflow, destination, resultFrom, resultOf, start, testNoMoreCalls, workflow, workflows } from "./setup.mjs";

describe("steps one after another", { concurrency: true }, () => {
  test("see what those before them returned", async () => {
    const route = workflow("/path", async (context) => {
      const one = await context.run("one", () => `${context.requestPayload} one`);
      const two = await context.run("two", async () => `${one} two`);
      return context.run("three", () => `${two} three`);
    });
    assert.equal(await resultFrom(route, { body: "payload" }), "payload one two three");
    await route.called(4);
  });

  test("return values of every kind", async () => {
    const values = [undefined, null, false, 0, "", "text", "17", "žluťoučký 🐎\n", { nested: [1, { two: null }] }, []];
    let seen;
    const route = workflow("/values", async (context) => {
      const results = [];
      for (const [index, value] of values.entries()) {
        results.push(await context.run(`value ${index}`, () => value));
      }
      seen = results;
    });
    assert.equal(await resultFrom(route), undefined);
    assert.deepEqual(seen, values);
    await route.called(values.length + 1);
  });

  test("are delivered in the order of their execution, each delivery with one more", async () => {
    const route = workflow("/lists", async (context) => {
      for (const name of ["one", "two", "three"]) await context.run(name, () => name);
    });
    await resultFrom(route, { body: { order: 7 } });
    const [first, ...rest] = await route.called(4);
    const initial = JSON.parse(first.body);
    assert.deepEqual(initial.map(decode), ['{"order":7}']);
    assert.equal(initial[0].messageId, first.headers["upstash-message-id"]);
    const names = [];
    for (const { body, headers } of rest) {
      const list = JSON.parse(body);
      assert.equal(list.at(-1).messageId, headers["upstash-message-id"]);
      assert.deepEqual([...new Set(list.map(({ callType }) => callType))], ["step"]);
      names.push(list.slice(1).map((entry) => JSON.parse(decode(entry)).stepName).join(" "));
    }
    assert.deepEqual(names, ["one", "one two", "one two three"]);
  });

  test("are tried again with the same body", async () => {
    const route = workflow("/retried", async (context) => {
      return context.run("fails once", () => {
        if (context.retried === 0) throw new Error("once");
        return context.retried;
      });
    });
    assert.equal(await resultFrom(route, { retries: 1, retryDelay: "10" }), 1);
    const [failed, again] = await route.called(3);
    assert.equal(failed.status, 500);
    assert.equal(again.body, failed.body);
    assert.equal(again.headers["upstash-message-id"], failed.headers["upstash-message-id"]);
  });
});

describe("a run sleeps", { concurrency: true }, () => {
  test("for a time", async () => {
    const route = workflow("/sleep", async (context) => {
      const one = await context.run("one", () => "one");
      await context.sleep("a number of seconds", 1);
      await context.sleep("a duration", "1s");
      return context.run("two", () => `${one} two`);
    });
    assert.equal(await resultFrom(route), "one two");
    const [, asleep, awake, awakeAgain] = await route.called(5);
    assertLater(asleep, awake, 1000);
    assertLater(awake, awakeAgain, 1000);
  });

  test("until a moment", async () => {
    let until; // s
    const route = workflow("/sleep-until", async (context) => {
      until = await context.run("choose", () => Math.ceil(Date.now() / 1000) + 1);
      await context.sleepUntil("a number", until);
      await context.sleepUntil("a date that has passed", new Date(until * 1000));
      await context.sleepUntil("a text that has passed", "2020-01-01T00:00:00Z");
      return "awake";
    });
    assert.equal(await resultFrom(route), "awake");
    const calls = await route.called(5);
    assert.ok(calls[2].at >= until * 1000, `it was woken ${until * 1000 - calls[2].at} ms early`);
  });

  // 3 runs, 2 sleeps and the first call: 6; a group of 3: 3 + 3.
  test("between the attempts of a loop that ends with a group", async () => {
    let attempts = 0;
    const route = workflow("/sleep-without-await", async (context) => {
      const invoice = context.requestPayload;
      for (;;) {
        const charged = await context.run("charge", () => ++attempts === 3);
        if (charged) break;
        await context.sleep("before the next attempt", 1);
      }
      const results = await Promise.all([
        context.run("receipt", () => invoice.email),
        context.run("update", () => invoice.amount),
        context.sleep("longest", 1),
      ]);
      return results.slice(0, 2);
    });
    const result = await resultFrom(route, { body: { email: "ada@example.com", amount: 10 } });
    assert.deepEqual(result, ["ada@example.com", 10]);
    await route.called(12);
  });
});

describe("steps in parallel", { concurrency: true }, () => {
  // The first call plans; 3 plans, 3 results, the answer of the call to be taken; 1 to finish.
  test("of different kinds", async () => {
    const third = destination("/parallel/third", () => new Response("called", { headers: { "Content-Type": "text/plain" } }));
    const route = workflow("/parallel", async (context) => {
      const [run, slept, call] = await Promise.all([
        context.run("run", () => "ran"),
        context.sleep("sleep", 1),
        context.call("call", { url: third.url }),
      ]);
      await overtaken(context, route, 8);
      return [run, slept ?? "slept", call.body];
    });
    assert.deepEqual(await resultFrom(route), ["ran", "slept", "called"]);
    await route.called(9);
    await third.called(1);
  });

  // 1 + 2·(3 + 3) and one for the step after each group.
  test("in two groups, the results in the order of the code", async () => {
    const route = workflow("/groups", async (context) => {
      const group = (name) => Promise.all([0, 1, 2].map((index) => context.run(`${name} ${index}`, () => `${name}${index}`)));
      const first = await group("a");
      await overtaken(context, route, 7);
      const second = await group("b");
      await overtaken(context, route, 14);
      return [...first, ...second].join(" ");
    });
    assert.equal(await resultFrom(route), "a0 a1 a2 b0 b1 b2");
    await route.called(15);
  });

  test("are each executed once, and what follows too", async () => {
    const executed = [];
    const mark = (name) => () => void executed.push(name);
    const route = workflow("/once", async (context) => {
      await Promise.all(["a", "b", "c", "d"].map((name) => context.run(name, mark(name))));
      await context.run("after", mark("after"));
      await overtaken(context, route, 10);
    });
    await resultFrom(route);
    assert.deepEqual([...executed].sort(), ["a", "after", "b", "c", "d"]);
    assert.equal(executed.at(-1), "after");
    await route.called(11);
  });

  test("are tried again on their own", async () => {
    const executed = [];
    const route = workflow("/parallel-retried", async (context) => {
      const results = await Promise.all([
        context.run("steady", () => void executed.push("steady")),
        context.run("flaky", () => {
          executed.push("flaky");
          if (context.retried === 0) throw new Error("once");
        }),
      ]);
      await overtaken(context, route, 6);
      return results.length;
    });
    assert.equal(await resultFrom(route, { retries: 1, retryDelay: "10" }), 2);
    assert.deepEqual([...executed].sort(), ["flaky", "flaky", "steady"]);
    await route.called(7);
  });
});

describe("many runs of one endpoint", () => {
  test("do not see each other's steps", async () => {
    const route = workflow("/many", async (context) => {
      const doubled = await context.run("double", () => context.requestPayload * 2);
      return context.run("add", () => doubled + 1);
    });
    const numbers = Array.from({ length: 20 }, (_, index) => index);
    const ids = await Promise.all(numbers.map((body) => start(route, { body })));
    assert.deepEqual(await Promise.all(ids.map(resultOf)), numbers.map((number) => number * 2 + 1));
    for (const id of ids) assert.equal(route.of(id).length, 3);
    await route.called(3 * numbers.length);
  });
});

describe("an endpoint whose answers are lost", () => {
  // 9 deliveries, each twice: the first, the one that plans the group, 2 plans, 2 results, the answer of
  // the call, its result and the end of the wait. Then nothing is lost any more: the child's result and 1
  // to finish.
  test("publishes steps twice, of which each counts once", async () => {
    let calm = false;
    const third = destination("/lost/third", () => new Response());
    const child = createWorkflow(async (context) => context.run("of the child", () => "child"));
    const parent = createWorkflow(async (context) => {
      const run = await context.run("run", () => "ran");
      const group = await Promise.all([context.run("a", () => "a"), context.run("b", () => "b")]);
      const { status } = await context.call("call", { url: third.url });
      const { timeout } = await context.waitForEvent("wait", "lost", { timeout: 1 });
      const { body } = await context.invoke("invoke", { workflow: child, retries: 0 });
      await context.run("wait until nothing is lost any more", async () => {
        await routes.parent.reached(19);
        calm = true;
      });
      return [run, ...group, status, timeout, body];
    });
    const routes = workflows("/lost", { parent, child });
    const lost = new Set();
    routes.parent.intercept = (call, response) => {
      const id = call.headers["upstash-message-id"];
      if (calm || lost.has(id)) return response;
      lost.add(id);
      return new Response("lost", { status: 502 });
    };
    const result = await resultFrom(routes.parent, { retries: 1, retryDelay: "10" });
    assert.deepEqual(result, ["ran", "a", "b", 200, true, "child"]);
    await routes.parent.called(20);
    await routes.child.called(2);
    await third.called(1);
  });
});

testNoMoreCalls();

/**
 * A step that ends when its endpoint was called so often: results of a group that
 * another result has overtaken are delivered too, to be discarded, but not after
 * the run has ended.
 */
function overtaken(context, route, count) {
  return context.run("wait for results that were overtaken", () => route.reached(count));
}

function decode({ body }) {
  return Buffer.from(body, "base64").toString();
}

function assertLater(call, next, milliseconds) {
  assert.ok(next.at - call.at >= milliseconds, `it was called again after ${next.at - call.at} ms`);
}
