// Runs that fail, and what is told of it: the failure function, the failure URL,
// the log and the DLQ (contract, workflows 3.5 and 5).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Client } from "@upstash/qstash";
import { WorkflowNonRetryableError, WorkflowRetryAfterError } from "@upstash/workflow";
import { client, destination, ended, eventually, logOf, resultFrom, start, testNoMoreCalls, workflow } from "./setup.mjs";

/** Adds an endpoint whose only step throws. */
function failing(path, options, error = () => new Error("broken")) {
  return workflow(path, async (context) => {
    await context.run("fail", () => {
      throw error();
    });
  }, options);
}

/** Waits until the failure callback of a run has ended and returns the run's log. */
async function failureOf(workflowRunId) {
  return eventually(async () => {
    const run = await logOf(workflowRunId);
    return ["CALLBACK_SUCCESS", "CALLBACK_FAIL"].includes(run?.failureFunction?.state) ? run : undefined;
  }, () => `the end of the failure function of ${workflowRunId}`);
}

/** The errors in the log of a run's last group. */
function errorsOf({ steps }) {
  return steps.at(-1).steps.flatMap(({ errors }) => errors ?? []);
}

async function deadLetterOf(workflowRunId) {
  const { messages } = await client.dlq.list({ filter: { workflowRunId } });
  assert.equal(messages.length, 1);
  return messages[0];
}

describe("a failure function", { concurrency: true }, () => {
  test("learns of everything there is to know", async () => {
    let told;
    const route = failing("/told", {
      failureFunction: ({ context, ...failure }) => {
        const { workflowRunId, workflowRunCreatedAt, url, requestPayload, labels } = context;
        const tenant = context.headers.get("x-tenant");
        told = { ...failure, workflowRunId, workflowRunCreatedAt, url, requestPayload, labels, tenant };
        return { compensated: true };
      },
    });
    const id = await start(route, { body: { order: 7 }, headers: { "X-Tenant": "acme" }, label: ["orders", "eu"] });
    const run = await failureOf(id);
    const { failHeaders, failStack, ...rest } = told;
    assert.deepEqual(rest, {
      failStatus: 500,
      failResponse: "broken",
      workflowRunId: id,
      workflowRunCreatedAt: run.workflowRunCreatedAt,
      url: route.url,
      requestPayload: { order: 7 },
      labels: ["orders", "eu"],
      tenant: "acme",
    });
    assert.match(failStack, /broken\n\s+at /);
    assert.deepEqual(failHeaders["Upstash-Workflow-Sdk-Version"], ["1"]);
    await route.called(2);

    const { failureFunction, dlqId } = run;
    assert.equal(failureFunction.state, "CALLBACK_SUCCESS");
    assert.equal(failureFunction.url, route.url);
    assert.equal(failureFunction.failStatus, 500);
    assert.equal(JSON.parse(failureFunction.failResponse).message, "broken");
    assert.equal(failureFunction.responseStatus, 200);
    assert.deepEqual(JSON.parse(failureFunction.responseBody), { result: { compensated: true } });
    assert.equal(failureFunction.dlqId, dlqId);
  });

  test("that returns nothing", async () => {
    const route = failing("/returns-nothing", { failureFunction: () => {} });
    const { failureFunction } = await failureOf(await start(route));
    assert.deepEqual([failureFunction.state, failureFunction.responseBody], ["CALLBACK_SUCCESS", "{}"]);
    await route.called(2);
  });

  test("is called once, when the retries are used up", async () => {
    const route = failing("/retried", { failureFunction: () => "called" });
    const run = await failureOf(await start(route, { retries: 1, retryDelay: "10" }));
    assert.equal(errorsOf(run).length, 2);
    await route.called(3);
  });

  test("is called at once after an error that is not to be retried", async () => {
    let status;
    const options = { failureFunction: ({ failStatus }) => void (status = failStatus) };
    const route = failing("/not-retryable", options, () => new WorkflowNonRetryableError("broken"));
    const run = await failureOf(await start(route, { retries: 3 }));
    assert.equal(status, 489);
    assert.deepEqual(errorsOf(run).map((error) => error.status), [489]);
    await route.called(2);
  });

  test("is called when the workflow returns before its first step", async () => {
    let executions = 0;
    let status;
    const route = workflow("/returns-early", async (context) => {
      if (executions++ === 0) return;
      await context.run("allows the failure function to be executed", () => {});
    }, { failureFunction: ({ failStatus }) => void (status = failStatus) });
    const run = await failureOf(await start(route));
    assert.equal(run.failureFunction.state, "CALLBACK_SUCCESS");
    assert.equal(status, 400);
    await route.called(2);
  });

  test("that fails is retried as often as the run", async () => {
    const route = failing("/fails-itself", { failureFunction: () => assert.fail("it, too") });
    const { failureFunction, workflowState } = await failureOf(await start(route, { retries: 1, retryDelay: "10" }));
    assert.equal(workflowState, "RUN_FAILED");
    assert.equal(failureFunction.state, "CALLBACK_FAIL");
    assert.equal(failureFunction.responseStatus, 500);
    await route.called(4);
  });
});

describe("a failure URL", { concurrency: true }, () => {
  test("gets the whole story in one request", async () => {
    const elsewhere = destination("/elsewhere", () => new Response("noted"));
    const route = failing("/tells-elsewhere");
    const id = await start(route, {
      body: { order: 7 },
      headers: { "X-Tenant": "acme" },
      label: "orders",
      failureUrl: elsewhere.url,
    });
    const run = await failureOf(id);
    const [{ headers, body, method }] = await elsewhere.called(1);
    await route.called(1);
    assert.equal(method, "POST");
    assert.equal(headers["content-type"], "application/json");
    assert.equal(headers["x-tenant"], "acme");
    assert.equal(headers["upstash-label"], "orders");
    assert.equal(headers["upstash-workflow-is-failure"], "true");
    assert.equal(headers["upstash-workflow-failure-callback"], "true");
    assert.equal(headers["upstash-workflow-runid"], id);
    assert.equal(headers["upstash-workflow-url"], route.url);
    assert.equal(headers["upstash-workflow-calltype"], "failureCall");

    const story = JSON.parse(body);
    const letter = await deadLetterOf(id);
    assert.equal(decode(story.sourceBody), '{"order":7}');
    assert.equal(JSON.parse(decode(story.body)).message, "broken");
    assert.deepEqual(story.header["Upstash-Workflow-Sdk-Version"], ["1"]);
    assert.deepEqual(story.sourceHeader["X-Tenant"], ["acme"]);
    const { status, retried, maxRetries, dlqId, sourceMessageId, url, workflowRunId, workflowCreatedAt } = story;
    assert.deepEqual(
      { status, retried, maxRetries, dlqId, sourceMessageId, url, method: story.method, workflowRunId, workflowCreatedAt },
      {
        status: 500,
        retried: 0,
        maxRetries: 0,
        dlqId: letter.dlqId,
        sourceMessageId: route.calls[0].headers["upstash-message-id"],
        url: route.url,
        method: "POST",
        workflowRunId: id,
        workflowCreatedAt: run.workflowRunCreatedAt,
      },
    );
    assert.deepEqual([run.failureFunction.state, run.failureFunction.responseBody], ["CALLBACK_SUCCESS", "noted"]);
  });

  test("is of use when the endpoint cannot be reached", async () => {
    const elsewhere = destination("/elsewhere-unreachable", () => new Response());
    const route = { url: "http://127.0.0.1:1/unreachable" };
    const id = await start(route, { failureUrl: elsewhere.url });
    const { failureFunction } = await failureOf(id);
    const [{ body }] = await elsewhere.called(1);
    const story = JSON.parse(body);
    assert.deepEqual([story.status, story.header], [503, {}]);
    assert.equal(typeof JSON.parse(decode(story.body)).message, "string");
    assert.equal(failureFunction.failStatus, 503);
  });
});

describe("a run", { concurrency: true }, () => {
  test("fails when its retries are used up, with every error in the log and one dead letter", async () => {
    const route = failing("/exhausted");
    const id = await start(route, { retries: 2, retryDelay: "10", label: "orders", body: "payload" });
    const run = await ended(id, "RUN_FAILED");
    assert.deepEqual(run.steps.map(({ type }) => type), ["sequential", "next"]);
    const [next] = run.steps[1].steps;
    assert.deepEqual([next.state, next.retries, next.retryDelay], ["STEP_FAILED", 2, "10"]);
    assert.equal(next.messageId, route.calls[0].headers["upstash-message-id"]);
    assert.equal(next.errors.length, 3);
    for (const { error, status, body, headers, time } of next.errors) {
      assert.deepEqual([error, status], ["500 Internal Server Error", 500]);
      assert.equal(JSON.parse(body).message, "broken");
      assert.deepEqual(headers["Upstash-Workflow-Sdk-Version"], ["1"]);
      assert.equal(typeof time, "number");
    }

    const letter = await deadLetterOf(id);
    assert.equal(letter.dlqId, run.dlqId);
    assert.equal(letter.messageId, next.messageId);
    assert.equal(letter.workflowUrl, route.url);
    assert.equal(letter.url, route.url);
    assert.equal(letter.workflowCreatedAt, run.workflowRunCreatedAt);
    assert.equal(letter.responseStatus, 500);
    assert.equal(JSON.parse(letter.responseBody).message, "broken");
    assert.equal(letter.maxRetries, 2);
    assert.equal(letter.body, "payload");
    assert.deepEqual([letter.label, letter.labels], ["orders", ["orders"]]);
    assert.equal(letter.failureCallback, route.url);
    await route.called(4);
  });

  test("has no failure function in its log if the endpoint defines none", async () => {
    const route = failing("/undefined");
    const id = await start(route);
    const run = await ended(id, "RUN_FAILED");
    await route.called(2);
    await eventually(async () => ((await logOf(id)).failureFunction === undefined ? true : undefined));
    assert.equal(typeof run.dlqId, "string");
  });

  test("waits as long as the endpoint asks for", async () => {
    let attempts = 0;
    const route = workflow("/retry-after", async (context) => {
      return context.run("busy at first", () => {
        if (attempts++ === 0) throw new WorkflowRetryAfterError("busy", 1);
        return "done";
      });
    });
    assert.equal(await resultFrom(route, { retries: 1, retryDelay: "10" }), "done");
    const [busy, again] = await route.called(3);
    assert.equal(busy.status, 429);
    assert.ok(again.at >= busy.at + 1000, `it was called again after ${again.at - busy.at} ms`);
  });

  test("fails when it asks for more retries than the server allows", async () => {
    const route = workflow("/quota", async (context) => {
      await context.call("too often", { url: "http://127.0.0.1:1/", retries: 1_000_000 });
    });
    const run = await ended(await start(route, { retries: 3 }), "RUN_FAILED");
    assert.equal(run.steps.at(-1).type, "next");
    assert.deepEqual(errorsOf(run).map(({ status }) => status), [489]);
    await route.called(2);
  });

  // 1 to plan, 2 plans, the result of the branch that ends first, 1 failure callback.
  test("fails with one branch of a group", async () => {
    const route = workflow("/branch", async (context) => {
      await Promise.all([
        context.run("good", () => "good"),
        context.run("bad", async () => {
          await route.reached(4);
          throw new Error("broken");
        }),
      ]);
    });
    const { steps } = await ended(await start(route), "RUN_FAILED");
    assert.deepEqual(steps.map(({ type }) => type), ["sequential", "parallel"]);
    const states = steps[1].steps.map(({ stepName, state }) => [stepName, state]);
    assert.deepEqual(states, [["good", "STEP_SUCCESS"], ["bad", "STEP_FAILED"]]);
    assert.equal(steps[1].steps[1].errors.length, 1);
    assert.equal(steps[1].steps[1].out, undefined);
    await route.called(5);
  });

  test("takes nothing of a branch that is still executed when another has failed", async () => {
    const failed = destination("/branch/failed", () => new Response());
    const route = workflow("/late-branch", async (context) => {
      await Promise.all([
        context.run("late", () => failed.reached(1)),
        context.run("bad", async () => {
          await route.reached(3);
          throw new Error("broken");
        }),
      ]);
    });
    await ended(await start(route, { failureUrl: failed.url }), "RUN_FAILED");
    await failed.called(1);
    const calls = await route.called(3);
    // The endpoint's result was refused, which it takes as the end of the run.
    assert.deepEqual(calls.map(({ status }) => status).sort(), [200, 200, 500]);
  });

  test("fails with a branch of a group that asks for too much", async () => {
    const route = workflow("/quota-branch", async (context) => {
      await Promise.all([
        context.run("good", () => route.reached(3)),
        context.call("too often", { url: "http://127.0.0.1:1/", retries: 1_000_000 }),
      ]);
    });
    const { steps } = await ended(await start(route), "RUN_FAILED");
    assert.equal(steps[1].type, "parallel");
    const failed = steps[1].steps.filter(({ state }) => state === "STEP_FAILED");
    assert.deepEqual(failed.map(({ stepName, errors }) => [stepName, errors[0].status]), [["too often", 489]]);
  });
});

// What the server would refuse with 400 anywhere else: to the SDK that means that the run
// has ended, and it would say nothing more (contract, decision 31).
describe("a step that the server refuses fails the run with the reason", { concurrency: true }, () => {
  // The server itself: what stands before it in these tests would refuse a bare % instead.
  const qstashClient = new Client({ baseUrl: process.env.SERVER_URL, token: process.env.QSTASH_TOKEN });
  const cases = {
    "an event id that is too long": [(context) => context.notify("tell", "x".repeat(300), "text"), /event id/],
    "an event id that is too long, of a run": [(context) => context.notify("tell", "x".repeat(300), "text", "wfr_other"), /event id/],
    "an event id with a bare %": [(context) => context.notify("tell", "100%", "text"), /% that is not followed/],
    "a wait for an id with a bare %": [(context) => context.waitForEvent("wait", "100%", { timeout: 60 }), /% that is not followed/],
    "a control character in a header of a call": [
      (context) => context.call("call", { url: context.url, headers: { "X-Title": "\u001b[31mred" } }),
      /control character/,
    ],
    "a control character in the name of a call": [(context) => context.call("\u001b[31mred", { url: context.url }), /control character/],
    "a call of what is no URL": [(context) => context.call("call", { url: "ftp://a.example" }), /destination/],
  };
  for (const [name, [step, reason]] of Object.entries(cases)) {
    test(name, async () => {
      const route = workflow(`/refused/${name.replaceAll(/\W+/g, "-")}`, step, { qstashClient });
      const run = await ended(await start(route), "RUN_FAILED");
      const [{ status, body }] = errorsOf(run);
      assert.equal(status, 489);
      assert.match(JSON.parse(body).message, reason);
    });
  }
});

testNoMoreCalls();

function decode(base64) {
  return Buffer.from(base64, "base64").toString();
}
