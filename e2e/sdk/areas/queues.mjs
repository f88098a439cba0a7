// Queues.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { states, story } from "../logs.mjs";
import { answered, assertSince, client, ids, sink } from "./setup.mjs";

describe("a queue", () => {
  test("is made, read, changed, listed and deleted", async () => {
    const started = Date.now();
    const queue = client.queue({ queueName: "settings" });
    await queue.upsert({ parallelism: 3 });
    const { createdAt, updatedAt, ...made } = await queue.get();
    assertSince(started, createdAt);
    assertSince(createdAt, updatedAt);
    assert.deepEqual(made, { name: "settings", parallelism: 3, paused: false, lag: 0 });

    await queue.upsert({ parallelism: 5, paused: true });
    const changed = await queue.get();
    assert.deepEqual([changed.parallelism, changed.paused, changed.createdAt], [5, true, createdAt]);
    assert.deepEqual((await queue.list()).filter(({ name }) => name === "settings"), [changed]);

    await queue.delete();
    await assert.rejects(queue.get(), answered(404));
    assert.deepEqual((await queue.list()).filter(({ name }) => name === "settings"), []);
  });

  test("holds its messages while it is paused and then sends them in order", async () => {
    const queue = client.queue({ queueName: "paused" });
    await queue.upsert({ parallelism: 1 });
    await queue.pause();
    await queue.pause();
    assert.equal((await queue.get()).paused, true);
    const receipts = [];
    for (let order = 0; order < 5; order++) {
      receipts.push(await queue.enqueueJSON({ url: sink.url("/ok/queue"), body: { order } }));
    }
    assert.equal((await queue.get()).lag, 5);
    assert.equal((await client.messages.get(receipts[0].messageId)).queueName, "paused");
    assert.equal(sink.of(receipts[0].messageId).length, 0);

    await queue.resume();
    const arrivals = [];
    for (const { messageId } of receipts) {
      arrivals.push(...(await sink.delivered(messageId)));
      assert.equal(states(await story(client, messageId)), "CREATED ACTIVE DELIVERED");
    }
    assert.deepEqual(arrivals.map(({ body }) => body), receipts.map((_, order) => JSON.stringify({ order })));
    for (let index = 1; index < arrivals.length; index++) {
      assert.ok(arrivals[index].at >= arrivals[index - 1].at, `message ${index} arrived before the one ahead of it`);
    }
    assert.equal((await queue.get()).lag, 0);
    const { logs } = await client.logs({ filter: { queueName: "paused", state: "DELIVERED" } });
    assert.deepEqual(ids(logs), ids(receipts).reverse());
  });

  test("waits for a message through its retries", async () => {
    const queue = client.queue({ queueName: "patient" });
    const first = await queue.enqueue({ url: sink.url("/flaky/queue"), retries: 2, retryDelay: "20" });
    const second = await queue.enqueue({ url: sink.url("/ok/queue") });
    const attempts = await sink.delivered(first.messageId, 3);
    const [{ at }] = await sink.delivered(second.messageId);
    assert.ok(at >= attempts[2].at, "the second message did not wait for the first");
  });

  test("is made by what is enqueued, and takes groups", async () => {
    await client.urlGroups.addEndpoints({ name: "queued", endpoints: [{ url: sink.url("/ok/a") }, { url: sink.url("/ok/b") }] });
    const queue = client.queue({ queueName: "made-by-use" });
    const receipts = await queue.enqueueJSON({ urlGroup: "queued", body: { order: 7 } });
    assert.deepEqual(receipts.map(({ url }) => url), [sink.url("/ok/a"), sink.url("/ok/b")]);
    for (const { messageId } of receipts) {
      const [{ headers }] = await sink.delivered(messageId);
      assert.deepEqual([headers["upstash-queue-name"], headers["upstash-topic-name"]], ["made-by-use", "queued"]);
    }
    assert.equal((await queue.get()).parallelism, 1);
  });

  test("needs a name of letters, digits, dashes, underscores and dots", async () => {
    await assert.rejects(client.queue({ queueName: "with blank" }).upsert({ parallelism: 1 }), answered(400));
    await assert.rejects(client.queue({ queueName: "negative" }).upsert({ parallelism: -1 }), answered(400));
  });

  test("must exist to be paused or resumed, and need not to be deleted", async () => {
    const queue = client.queue({ queueName: "unknown" });
    await assert.rejects(queue.pause(), answered(404));
    await assert.rejects(queue.resume(), answered(404));
    await queue.delete();
  });
});
