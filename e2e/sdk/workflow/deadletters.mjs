// Runs that have failed for good: how they are listed, and how they are restarted,
// resumed and deleted, one and many. The tests run one after another: some of them
// take everything that is there (contract, workflows 5.3, 6.4 and 7).
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Client } from "@upstash/qstash";
import { answered, client, destination, ended, eventually, logOf, resultOf, start, testNoMoreCalls, workflow } from "./setup.mjs";

/** Empties the DLQ. */
async function empty() {
  let cursor;
  do {
    ({ cursor } = await client.dlq.delete({ all: true, cursor }));
  } while (cursor !== undefined);
}

/** An endpoint that fails in its second step for as long as it is broken. */
class Patient {
  broken = true;
  executed = [];

  constructor(path, options) {
    this.route = workflow(path, (context) => this.#run(context), options);
  }

  async #run(context) {
    const one = await context.run("one", () => this.#execute("one", `${context.requestPayload} one`));
    const two = await context.run("two", () => {
      if (this.broken) throw new Error("broken");
      return this.#execute("two", `${one} two`);
    });
    return context.run("three", () => this.#execute("three", `${two} three`));
  }

  #execute(name, result) {
    this.executed.push(name);
    return result;
  }

  /** Starts runs that fail and returns their dead letters, the oldest first. */
  async fail(count, settings) {
    const letters = [];
    for (let index = 0; index < count; index++) {
      const id = await start(this.route, { body: `run ${index}`, ...settings });
      await ended(id, "RUN_FAILED");
      letters.push((await client.dlq.list({ filter: { workflowRunId: id } })).messages[0]);
    }
    return letters;
  }
}

function dlqIds(letters) {
  return letters.map(({ dlqId }) => dlqId);
}

async function listed(request) {
  return dlqIds((await client.dlq.list(request)).messages);
}

/** Asserts that new runs were made of dead letters, in their order, that they are gone, and returns the results. */
async function resultsOf(letters, runs) {
  assert.equal(runs.length, letters.length);
  assert.equal(new Set(runs.map(({ workflowRunId }) => workflowRunId)).size, runs.length);
  for (const [index, { workflowRunId, workflowCreatedAt }] of runs.entries()) {
    assert.match(workflowRunId, /^wfr_/);
    assert.notEqual(workflowRunId, letters[index].workflowRunId);
    assert.equal((await logOf(workflowRunId)).workflowRunCreatedAt, workflowCreatedAt);
    assert.deepEqual(await listed({ filter: { workflowRunId: letters[index].workflowRunId } }), []);
    assert.equal((await logOf(letters[index].workflowRunId)).workflowState, "RUN_FAILED");
  }
  return Promise.all(runs.map(({ workflowRunId }) => resultOf(workflowRunId)));
}

describe("a dead letter", () => {
  beforeEach(empty);

  test("tells of its run", async () => {
    const triggered = Date.now();
    const patient = new Patient("/tells", { failureFunction: () => "told" });
    const flowControl = { key: "tells", parallelism: 2, rate: 5, period: "1m" };
    await patient.fail(1, { label: ["a", "b"], headers: { "X-Tenant": "acme" }, flowControl });
    const letter = await eventually(async () => {
      const { messages } = await client.dlq.list();
      return messages[0].failureCallbackInfo.state === "CALLBACK_SUCCESS" ? messages[0] : undefined;
    });
    const failed = patient.route.calls[1].headers;
    assert.deepEqual(letter.header["X-Tenant"], ["acme"]);
    assert.deepEqual(letter.responseHeader["Upstash-Workflow-Sdk-Version"], ["1"]);
    assert.equal(JSON.parse(letter.responseBody).message, "broken");
    assert.equal(JSON.parse(letter.body).stepName, "one");
    assert.ok(letter.createdAt >= letter.workflowCreatedAt && letter.workflowCreatedAt >= triggered);
    const { dlqId, messageId, workflowRunId, workflowUrl, url, method, maxRetries, callerIP, responseStatus, failureCallback } = letter;
    assert.deepEqual(
      { dlqId, messageId, workflowRunId, workflowUrl, url, method, maxRetries, callerIP, responseStatus, failureCallback },
      {
        dlqId: (await logOf(workflowRunId)).dlqId,
        messageId: failed["upstash-message-id"],
        workflowRunId: failed["upstash-workflow-runid"],
        workflowUrl: patient.route.url,
        url: patient.route.url,
        method: "POST",
        maxRetries: 0,
        callerIP: "127.0.0.1",
        responseStatus: 500,
        failureCallback: patient.route.url,
      },
    );
    assert.deepEqual([letter.label, letter.labels], ["a", ["a", "b"]]);
    assert.deepEqual([letter.flowControlKey, letter.parallelism, letter.rate, letter.period], ["tells", 2, 5, 60]);
    assert.equal(letter.failureFunctionState, "CALLBACK_SUCCESS");
    assert.equal(letter.failureCallbackInfo.responseStatus, 200);
    assert.deepEqual(JSON.parse(letter.failureCallbackInfo.responseBody), { result: "told" });
  });

  test("is listed by each filter, the latest first", async () => {
    const settings = { label: ["listed", "x"], flowControl: { key: "listed", parallelism: 1 } };
    const patient = new Patient("/listed");
    const [letter] = await patient.fail(1, settings);
    const [other] = await new Patient("/listed-too").fail(1);
    assert.deepEqual(await listed(), [other.dlqId, letter.dlqId]);
    const page = await client.dlq.list({ count: 1 });
    assert.deepEqual(dlqIds(page.messages), [other.dlqId]);
    const rest = await client.dlq.list({ count: 1, cursor: page.cursor });
    assert.deepEqual([dlqIds(rest.messages), rest.cursor], [[letter.dlqId], undefined]);

    const filters = {
      workflowUrl: [patient.route.url, "http://127.0.0.1/listed"],
      workflowRunId: [letter.workflowRunId, "wfr_unknown"],
      "workflowRunId by its beginning": [letter.workflowRunId.slice(0, 12), letter.workflowRunId.slice(1)],
      workflowCreatedAt: [letter.workflowCreatedAt, letter.workflowCreatedAt - 1],
      label: [["listed", "y"], "list"],
      flowControlKey: ["listed", "x"],
      callerIp: ["127.0.0.1", "203.0.113.1"],
      toDate: [other.createdAt - 1, letter.workflowCreatedAt - 1],
    };
    for (const [name, [match, mismatch]] of Object.entries(filters)) {
      const field = name.split(" ")[0];
      const url = field === "workflowUrl" ? {} : { workflowUrl: patient.route.url };
      assert.deepEqual(await listed({ filter: { ...url, [field]: match } }), [letter.dlqId], name);
      assert.deepEqual(await listed({ filter: { ...url, [field]: mismatch } }), [], `${name}, but another`);
    }
    await assert.rejects(listed({ filter: { labeel: "listed" } }), answered(400));
    // The two kinds of dead letters never mix.
    assert.deepEqual((await new Client().dlq.listMessages()).messages, []);
  });
});

describe("runs are restarted", () => {
  beforeEach(empty);

  // 2 calls fail the first run, 1 is its failure callback; 4 for the new run.
  test("from their beginning, with everything they had been started with", async () => {
    const patient = new Patient("/restarted");
    const [letter] = await patient.fail(1, { label: ["a", "b"], headers: { "X-Tenant": "acme" }, body: "payload" });
    patient.broken = false;
    const { workflowRuns, cursor } = await client.dlq.restart(letter.dlqId);
    assert.equal(cursor, undefined);
    assert.deepEqual(await resultsOf([letter], workflowRuns), ["payload one two three"]);
    assert.deepEqual(patient.executed, ["one", "one", "two", "three"]);
    const id = workflowRuns[0].workflowRunId;
    assert.deepEqual((await logOf(id)).labels, ["a", "b"]);
    await patient.route.called(7);
    for (const { headers } of patient.route.of(id)) {
      assert.equal(headers["x-tenant"], "acme");
      assert.equal(headers["upstash-label"], "a,b");
    }
    await assert.rejects(client.dlq.restart(letter.dlqId), answered(404));
  });

  test("by ids, all or none, in the order of the request", async () => {
    const patient = new Patient("/restarted/ids");
    const letters = await patient.fail(5);
    patient.broken = false;
    const [a, b, c, d, e] = dlqIds(letters);
    await assert.rejects(client.dlq.restart([a, "1-1"]), answered(404));
    assert.equal((await listed()).length, 5);
    const two = await client.dlq.restart([b, a]);
    assert.deepEqual(await resultsOf([letters[1], letters[0]], two.workflowRuns), ["run 1 one two three", "run 0 one two three"]);
    const one = await client.dlq.restart({ dlqId: c });
    const several = await client.dlq.restart({ dlqId: [d] });
    const last = await client.dlq.restart({ dlqIds: e });
    await resultsOf(letters.slice(2), [one, ...several, ...last.workflowRuns]);
    assert.deepEqual(await listed(), []);
  });

  test("by filters", async () => {
    const patient = new Patient("/restarted/filter");
    const letters = await patient.fail(3, { label: "marked" });
    const [kept] = await patient.fail(1);
    patient.broken = false;
    const none = await client.dlq.restart({ filter: { label: "mark" } });
    assert.deepEqual(none, { workflowRuns: [], cursor: undefined });
    const filter = { label: "marked", workflowUrl: patient.route.url, workflowRunId: letters[0].workflowRunId.slice(0, 14) };
    await resultsOf(letters.slice(0, 1), (await client.dlq.restart({ filter })).workflowRuns);
    const first = await client.dlq.restart({ filter: { label: "marked" }, count: 1 });
    assert.equal(typeof first.cursor, "string");
    await resultsOf(letters.slice(1, 2), first.workflowRuns);
    const second = await client.dlq.restart({ filter: { label: "marked" }, count: 1, cursor: first.cursor });
    await resultsOf(letters.slice(2), second.workflowRuns);
    assert.equal(second.cursor, undefined);
    assert.deepEqual(await listed(), [kept.dlqId]);
    await assert.rejects(client.dlq.restart({ filter: { labeel: "marked" } }), answered(400));
    assert.deepEqual(await listed(), [kept.dlqId]);
  });

  test("with other retries and another flow control", async () => {
    const patient = new Patient("/restarted/settings");
    const [letter] = await patient.fail(1, { retryDelay: "10", flowControl: { key: "before", parallelism: 3 } });
    const options = { retries: 2, flowControl: { key: "after", parallelism: 1 } };
    const { workflowRuns } = await client.dlq.restart(letter.dlqId, options);
    const run = await ended(workflowRuns[0].workflowRunId, "RUN_FAILED");
    assert.equal(run.flowControlKey, "after");
    assert.equal(run.steps[0].steps[0].retries, 2);
    assert.equal(run.steps.at(-1).steps[0].errors.length, 3);
    await patient.route.called(3 + 5); // step one, three attempts of step two, the failure callback
    const [again] = (await client.dlq.list()).messages;
    assert.deepEqual([again.maxRetries, again.flowControlKey, again.parallelism], [2, "after", 1]);
  });
});

describe("runs are resumed", () => {
  beforeEach(empty);

  // 2 calls fail the first run, 1 is its failure callback; the new run executes two steps and finishes: 3.
  test("where they had failed, with the results they had", async () => {
    const patient = new Patient("/resumed");
    const [letter] = await patient.fail(1, { label: "a", headers: { "X-Tenant": "acme" }, body: "payload" });
    patient.broken = false;
    const { workflowRuns } = await client.dlq.resume(letter.dlqId);
    assert.deepEqual(await resultsOf([letter], workflowRuns), ["payload one two three"]);
    assert.deepEqual(patient.executed, ["one", "two", "three"]);
    await patient.route.called(6);
    const [first] = patient.route.of(workflowRuns[0].workflowRunId);
    const list = JSON.parse(first.body);
    assert.equal(list.length, 2);
    assert.equal(list[1].messageId, first.headers["upstash-message-id"]);
    assert.equal(list[0].messageId, JSON.parse(patient.route.calls[1].body)[0].messageId);
    assert.notEqual(list[1].messageId, letter.messageId);
    assert.equal(first.headers["x-tenant"], "acme");
    assert.equal((await logOf(workflowRuns[0].workflowRunId)).label, "a");
  });

  test("by ids, by filters, and all of them", async () => {
    const patient = new Patient("/resumed/many");
    const letters = await patient.fail(7, { label: "marked" });
    patient.broken = false;
    const ids = dlqIds(letters);
    const runs = [
      await client.dlq.resume({ dlqId: ids[0] }),
      ...(await client.dlq.resume({ dlqId: [ids[1]] })),
      ...(await client.dlq.resume([ids[2]])).workflowRuns,
      ...(await client.dlq.resume({ dlqIds: [ids[3]] })).workflowRuns,
      ...(await client.dlq.resume({ filter: { label: "marked" }, count: 1 })).workflowRuns,
      ...(await client.dlq.resume({ all: true }, { retries: 1 })).workflowRuns,
    ];
    const results = await resultsOf(letters, runs);
    assert.deepEqual(results, letters.map((_, index) => `run ${index} one two three`));
    assert.equal(patient.executed.filter((name) => name === "one").length, letters.length);
    assert.deepEqual(await listed(), []);
    await assert.rejects(client.dlq.resume(ids[0]), answered(404));
  });

  test("at their beginning, if that had failed", async () => {
    let broken = true;
    const route = workflow("/resumed/first", async (context) => {
      return context.run("one", () => (broken ? assert.fail("broken") : context.requestPayload));
    });
    const id = await start(route, { body: "payload" });
    const { dlqId } = await ended(id, "RUN_FAILED");
    broken = false;
    const { workflowRuns } = await client.dlq.resume(dlqId);
    assert.equal(await resultOf(workflowRuns[0].workflowRunId), "payload");
    await route.called(4);
  });

  // The failed run: 1 to plan, 2 plans, 1 result, 1 failure callback. The resumed one: the plan
  // without a result, that result, and 1 to finish after the step that waits.
  test("in the middle of a group, whose results are kept", async () => {
    let broken = true;
    const executed = [];
    const route = workflow("/resumed/group", async (context) => {
      const results = await Promise.all([
        context.run("good", () => void executed.push("good")),
        context.run("bad", async () => {
          if (broken) await route.reached(4);
          executed.push("bad");
          if (broken) throw new Error("broken");
        }),
      ]);
      return results.length;
    });
    const { dlqId } = await ended(await start(route), "RUN_FAILED");
    await route.called(5);
    broken = false;
    const { workflowRuns } = await client.dlq.resume(dlqId);
    assert.equal(await resultOf(workflowRuns[0].workflowRunId), 2);
    assert.deepEqual(executed, ["good", "bad", "bad"]);
    await route.called(7);
  });

  test("where the answer of a call had not been taken", async () => {
    let broken = true;
    const third = destination("/resumed/call/third", () => new Response());
    const route = workflow("/resumed/call", async (context) => {
      if (broken && context.requestPayload?.sourceMessageId !== undefined) throw new Error("broken");
      const { status } = await context.call("call", { url: third.url });
      return status;
    });
    const { dlqId } = await ended(await start(route), "RUN_FAILED");
    await route.called(3);
    broken = false;
    const { workflowRuns } = await client.dlq.resume(dlqId);
    assert.equal(await resultOf(workflowRuns[0].workflowRunId), 200);
    await third.called(1);
    await route.called(5); // the answer again, and the result
  });
});

describe("a failure function is called again", () => {
  beforeEach(empty);

  test("when it had failed, but not when it had not", async () => {
    let broken = true;
    const patient = new Patient("/again", {
      failureFunction: () => (broken ? assert.fail("it, too") : "repaired"),
    });
    const [{ dlqId, workflowRunId, workflowCreatedAt }] = await patient.fail(1);
    const reaches = (state) =>
      eventually(async () => {
        const { messages } = await client.dlq.list();
        return messages[0].failureCallbackInfo.state === state ? messages[0] : undefined;
      });
    const failed = await reaches("CALLBACK_FAIL");
    assert.equal(failed.failureCallbackInfo.responseStatus, 500);
    assert.deepEqual(await listed({ filter: { failureFunctionState: "CALLBACK_FAIL" } }), [dlqId]);
    assert.deepEqual(await listed({ filter: { failureFunctionState: "CALLBACK_SUCCESS" } }), []);

    broken = false;
    const answer = await client.dlq.retryFailureFunction({ dlqId });
    assert.deepEqual([answer.workflowRunId, answer.workflowCreatedAt], [workflowRunId, workflowCreatedAt]);
    const repaired = await reaches("CALLBACK_SUCCESS");
    assert.deepEqual(JSON.parse(repaired.failureCallbackInfo.responseBody), { result: "repaired" });
    assert.equal((await logOf(workflowRunId)).failureFunction.state, "CALLBACK_SUCCESS");
    await patient.route.called(4);
    await assert.rejects(client.dlq.retryFailureFunction({ dlqId }), answered(400));
    await assert.rejects(client.dlq.retryFailureFunction({ dlqId: "1-1" }), answered(404));
  });
});

describe("dead letters are deleted", () => {
  beforeEach(empty);

  test("by ids, of which unknown ones do not count", async () => {
    const [a, b, c] = dlqIds(await new Patient("/deleted").fail(3));
    assert.deepEqual(await client.dlq.delete(a), { deleted: 1, cursor: undefined });
    assert.equal((await client.dlq.delete([a, b])).deleted, 1);
    assert.deepEqual(await listed(), [c]);
    assert.equal((await client.dlq.delete({ dlqIds: c })).deleted, 1);
    assert.deepEqual(await listed(), []);
  });

  test("by filters", async () => {
    const patient = new Patient("/deleted/filter");
    const marked = await patient.fail(2, { label: "marked" });
    const [kept] = await patient.fail(1);
    assert.equal((await client.dlq.delete({ filter: { label: "mark" } })).deleted, 0);
    assert.equal((await client.dlq.delete({ filter: { label: "marked", workflowRunId: marked[0].workflowRunId } })).deleted, 1);
    assert.equal((await client.dlq.delete({ filter: { label: ["marked", "x"] } })).deleted, 1);
    assert.deepEqual(await listed(), [kept.dlqId]);
    await assert.rejects(client.dlq.delete({ filter: { labeel: "x" } }), answered(400));
    assert.deepEqual(await listed(), [kept.dlqId]);
  });
});

describe("more dead letters than one request takes", () => {
  const count = 105;
  let broken = true;
  const route = workflow("/hundreds", async (context) => {
    if (broken) return; // which is no way to begin, and cheap
    return context.run("one", () => context.requestPayload);
  });
  const all = Array.from({ length: count }, (_, index) => index);

  /** Follows cursors to the end and returns what each page has. */
  async function pages(take) {
    const taken = [];
    let cursor;
    do {
      const began = performance.now();
      const page = await take(cursor);
      taken.push({ ...page, took: performance.now() - began }); // ms
      ({ cursor } = page);
    } while (cursor !== undefined && taken.length < count);
    return taken;
  }

  async function failAll() {
    await empty();
    broken = true;
    const calls = route.calls.length;
    await client.trigger(all.map((body) => ({ url: route.url, body, retries: 0, label: "hundreds" })));
    await route.reached(calls + 2 * count); // each fails and calls its failure function
    await eventually(async () => ((await allListed()).length === count ? true : undefined));
  }

  async function allListed() {
    return (await pages((cursor) => client.dlq.list({ cursor }))).flatMap(({ messages }) => dlqIds(messages));
  }

  /** Asserts that pages have all runs, fifty in each but the last, and in those that took the second a page may take. */
  function assertFifties(pages) {
    const sizes = pages.map(({ workflowRuns }) => workflowRuns.length);
    const story = `${sizes} in a page, in ${pages.map(({ took }) => took)} ms`;
    assert.ok(sizes.every((size) => size >= 1 && size <= 50), story);
    assert.ok(pages.slice(0, -1).every(({ took }, index) => sizes[index] === 50 || took >= 1000), story);
    assert.equal(sizes.reduce((sum, size) => sum + size), count, story);
  }

  beforeEach(failAll);

  test("are restarted fifty at a time, and none twice although they fail again", async () => {
    const before = new Set(await allListed());
    const calls = route.calls.length;
    const restarted = await pages((cursor) => client.dlq.restart({ all: true, cursor }));
    assertFifties(restarted);
    await route.reached(calls + 2 * count);
    const after = await eventually(async () => {
      const ids = await allListed();
      return ids.length === count && ids.every((id) => !before.has(id)) ? ids : undefined;
    });
    assert.equal(new Set(after).size, count);

    broken = false;
    const repaired = await pages((cursor) => client.dlq.restart({ filter: { label: "hundreds" }, cursor }));
    assertFifties(repaired);
    const results = await Promise.all(repaired.flatMap(({ workflowRuns }) => workflowRuns).map(({ workflowRunId }) => resultOf(workflowRunId)));
    assert.deepEqual([...results].sort((a, b) => a - b), all);
    assert.deepEqual(await listed(), []);
  });

  // The client has no way to go on by ids, the API has.
  test("are resumed fifty at a time, by their ids, too", async () => {
    broken = false;
    const ids = await allListed();
    const calls = route.calls.length;
    const { http } = client.client;
    const resumed = await pages(async (cursor) => {
      const page = await http.request({ path: ["v2", "workflows", "dlq", "resume"], method: "POST", query: { dlqIds: ids, cursor } });
      return { ...page, cursor: page.cursor || undefined };
    });
    assertFifties(resumed);
    await route.reached(calls + 2 * count);
    for (const { workflowRunId } of resumed.flatMap(({ workflowRuns }) => workflowRuns)) await ended(workflowRunId, "RUN_SUCCESS");
  });

  test("are listed and deleted a hundred at a time", async () => {
    const found = await pages((cursor) => client.dlq.list({ filter: { label: "hundreds" }, count: 100, cursor }));
    assert.deepEqual(found.map(({ messages }) => messages.length), [100, 5]);
    const deleted = await pages((cursor) => client.dlq.delete({ all: true, cursor }));
    assert.deepEqual(deleted.map(({ deleted }) => deleted), [100, 5]);
    assert.deepEqual(await listed(), []);
  });
});

testNoMoreCalls();
