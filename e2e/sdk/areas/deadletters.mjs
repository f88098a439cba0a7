// The dead letter queue.
import assert from "node:assert/strict";
import { before, beforeEach, describe, test } from "node:test";
import { states, story } from "../logs.mjs";
import { answered, assertSince, client, deadLetterOf, ids, sink } from "./setup.mjs";

/** Empties the DLQ. */
async function empty() {
  let cursor;
  do {
    ({ cursor } = await client.dlq.delete({ all: true, cursor }));
  } while (cursor !== undefined);
}

/** Publishes messages that fail at once and returns their dead letters, the oldest first. */
async function fail(count, settings) {
  const letters = [];
  for (let index = 0; index < count; index++) {
    const { messageId } = await client.publish({ url: sink.url("/broken/fail"), retries: 0, ...settings });
    letters.push(await deadLetterOf(messageId));
  }
  return letters;
}

function dlqIds(letters) {
  return letters.map(({ dlqId }) => dlqId);
}

async function listed(request) {
  return dlqIds((await client.dlq.listMessages(request)).messages);
}

describe("a dead letter", () => {
  const started = Date.now();
  let letter;
  let other;

  before(async () => {
    await empty();
    await client.urlGroups.addEndpoints({ name: "dead", endpoints: [{ name: "east", url: sink.url("/broken/dead") }] });
    const [{ messageId }] = await client.queue({ queueName: "dead" }).enqueueJSON({
      urlGroup: "dead",
      body: { order: 7 },
      headers: { "X-Tenant": "acme" },
      retries: 0,
      label: ["order", "paid"],
      flowControl: { key: "tenant/dead", parallelism: 1 },
    });
    letter = await deadLetterOf(messageId);
    [other] = await fail(1, { url: sink.url("/flaky/other") });
  });

  test("tells of the message and of the last answer", () => {
    const { createdAt, notBefore, failedAt, dlqId, messageId, responseHeader, ...rest } = letter;
    assertSince(started, createdAt);
    assert.equal(notBefore, createdAt);
    assertSince(createdAt, failedAt);
    assert.match(dlqId, new RegExp(`^${failedAt}-\\d+$`));
    assert.match(messageId, /^msg_/);
    assert.deepEqual(responseHeader["X-Sink"], ["broken"]);
    assert.deepEqual(rest, {
      url: sink.url("/broken/dead"),
      urlGroup: "dead",
      topicName: "dead",
      endpointName: "east",
      queueName: "dead",
      method: "POST",
      header: { "Content-Type": ["application/json"], "X-Tenant": ["acme"] },
      body: '{"order":7}',
      maxRetries: 0,
      callerIP: "127.0.0.1",
      label: "order",
      labels: ["order", "paid"],
      flowControlKey: "tenant/dead",
      parallelism: 1,
      period: 1,
      ratePerSecond: undefined,
      error: "500 Internal Server Error",
      responseStatus: 500,
      responseBody: "broken",
    });
  });

  test("is listed, the latest first", async () => {
    assert.deepEqual(await listed(), [other.dlqId, letter.dlqId]);
    const page = await client.dlq.listMessages({ count: 1 });
    assert.deepEqual(dlqIds(page.messages), [other.dlqId]);
    const rest = await client.dlq.listMessages({ count: 1, cursor: page.cursor });
    assert.deepEqual(dlqIds(rest.messages), [letter.dlqId]);
    assert.equal(rest.cursor, undefined);
  });

  test("is listed by ids", async () => {
    assert.deepEqual(await listed({ dlqIds: [letter.dlqId, "1-1"] }), [letter.dlqId]);
    assert.deepEqual(await listed({ dlqIds: other.dlqId }), [other.dlqId]);
  });

  test("is listed by each filter", async (t) => {
    const filters = {
      messageId: [letter.messageId, "msg_unknown"],
      url: [letter.url, sink.url("/broken")],
      urlGroup: [["dead", "x"], "x"],
      queueName: ["dead", "x"],
      responseStatus: [[500, 501], 501],
      label: ["paid", "pai"],
      flowControlKey: ["tenant/dead", "tenant"],
      toDate: [other.failedAt - 1, letter.failedAt - 1],
    };
    for (const [name, [match, mismatch]] of Object.entries(filters)) {
      await t.test(name, async () => {
        assert.deepEqual(await listed({ filter: { [name]: match } }), [letter.dlqId]);
        assert.deepEqual(await listed({ filter: { [name]: mismatch } }), []);
      });
    }
    const both = [other.dlqId, letter.dlqId];
    assert.deepEqual(await listed({ filter: { callerIp: "127.0.0.1" } }), both);
    assert.deepEqual(await listed({ filter: { callerIp: "203.0.113.1" } }), []);
    assert.deepEqual(await listed({ filter: { fromDate: letter.failedAt, toDate: new Date(other.failedAt) } }), both);
    assert.deepEqual(await listed({ filter: { fromDate: other.failedAt + 1 } }), []);
    assert.deepEqual(await listed({ filter: { scheduleId: "scd_1" } }), []);
    assert.deepEqual(await listed({ filter: { label: "paid", queueName: "x" } }), []);
    await assert.rejects(listed({ filter: { host: sink.host } }), answered(400));
  });
});

describe("dead letters are deleted", () => {
  beforeEach(empty);

  test("by one id, once", async () => {
    const [letter] = await fail(1);
    assert.deepEqual(await client.dlq.delete(letter.dlqId), { deleted: 1 });
    await assert.rejects(client.dlq.delete(letter.dlqId), answered(404));
    assert.deepEqual(await listed(), []);
  });

  test("by ids, of which unknown ones do not count", async () => {
    const letters = await fail(3);
    const [a, b, c] = dlqIds(letters);
    assert.deepEqual(await client.dlq.delete([a, "1-1"]), { deleted: 1 });
    assert.deepEqual(await client.dlq.delete({ dlqIds: [a, b] }), { deleted: 1 });
    assert.deepEqual(await listed(), [c]);
    assert.deepEqual(await client.dlq.deleteMany({ dlqIds: [c] }), { deleted: 1 });
    assert.deepEqual(await listed(), []);
  });

  test("by a filter", async () => {
    const marked = await fail(2, { label: "marked" });
    const [kept] = await fail(1, { label: "kept" });
    assert.deepEqual(await client.dlq.delete({ filter: { label: "marked", fromDate: marked[1].failedAt } }), { deleted: 1 });
    assert.deepEqual(await client.dlq.delete({ filter: { label: "marked" } }), { deleted: 1 });
    assert.deepEqual(await listed(), [kept.dlqId]);
    await assert.rejects(client.dlq.delete({ filter: { labeel: "kept" } }), answered(400));
    assert.deepEqual(await listed(), [kept.dlqId]);
  });

  test("all of them, by cursor", async () => {
    await fail(5);
    const deleted = [];
    let cursor;
    do {
      const result = await client.dlq.delete({ all: true, count: 2, cursor });
      deleted.push(result.deleted);
      cursor = result.cursor;
    } while (cursor !== undefined);
    assert.deepEqual(deleted, [2, 2, 1]);
    assert.deepEqual(await listed(), []);
  });
});

describe("dead letters are retried", () => {
  beforeEach(empty);

  /** Asserts that retries are new messages with the content of the dead letters, which are gone. */
  async function assertRetried(letters, receipts) {
    assert.equal(receipts.length, letters.length);
    const left = await listed({ dlqIds: dlqIds(letters) });
    assert.deepEqual(left, []);
    const bodies = [];
    for (const { messageId } of receipts) {
      assert.ok(!ids(letters).includes(messageId), "the retry has the id of its dead letter");
      const [{ body, headers }] = await sink.delivered(messageId);
      assert.equal(headers["upstash-retried"], "0");
      bodies.push(body);
      assert.equal(states(await story(client, messageId)), "CREATED ACTIVE ERROR FAILED");
    }
    assert.deepEqual([...bodies].sort(), letters.map(({ body }) => body).sort());
  }

  test("by one id, once", async () => {
    const letters = await fail(1, { body: "one" });
    const { responses, cursor } = await client.dlq.retry(letters[0].dlqId);
    assert.equal(cursor, undefined);
    await assertRetried(letters, responses);
    await assert.rejects(client.dlq.retry(letters[0].dlqId), answered(404));
  });

  test("by ids, all or none", async () => {
    const letters = await fail(3, { body: "some" });
    await assert.rejects(client.dlq.retry([letters[0].dlqId, "1-1"]), answered(404));
    assert.equal((await listed()).length, 3);
    const first = await client.dlq.retry(dlqIds(letters.slice(0, 2)));
    await assertRetried(letters.slice(0, 2), first.responses);
    const second = await client.dlq.retry({ dlqIds: letters[2].dlqId });
    await assertRetried(letters.slice(2), second.responses);
  });

  test("by a filter", async () => {
    const marked = await fail(1, { body: "marked", label: "marked" });
    const [kept] = await fail(1);
    assert.deepEqual(await client.dlq.retry({ filter: { label: "other" } }), { responses: [], cursor: undefined });
    await assertRetried(marked, (await client.dlq.retry({ filter: { label: "marked" } })).responses);
    assert.deepEqual(await listed({ dlqIds: kept.dlqId }), [kept.dlqId]);
  });

  test("all of them by cursor, and none twice although they fail again", async () => {
    const letters = await fail(5, { body: "sweep" });
    const pages = [];
    let cursor;
    do {
      const page = await client.dlq.retry({ all: true, count: 2, cursor });
      pages.push(page.responses);
      for (const { messageId } of page.responses) await deadLetterOf(messageId);
      cursor = page.cursor;
    } while (cursor !== undefined && pages.length < 9);
    assert.deepEqual(pages.map(({ length }) => length), [2, 2, 1]);
    await assertRetried(letters, pages.flat());
    assert.equal((await listed()).length, 5);
  });
});
