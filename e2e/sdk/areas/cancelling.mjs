// Cancelling messages that wait.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { states, story } from "../logs.mjs";
import { answered, client, sink } from "./setup.mjs";

const waiting = { url: sink.url("/ok/waiting"), delay: "1h" };

/** Publishes messages that wait and returns their ids. */
async function wait(count, settings) {
  const results = await client.batch(Array.from({ length: count }, () => ({ ...waiting, ...settings })));
  return results.map(({ messageId }) => messageId);
}

async function assertCancelled(...messageIds) {
  for (const messageId of messageIds) {
    assert.equal(states(await story(client, messageId)), "CREATED CANCEL_REQUESTED CANCELED");
    assert.equal(sink.of(messageId).length, 0);
    await assert.rejects(client.messages.get(messageId), answered(404));
  }
}

describe("messages that wait are cancelled", () => {
  before(() => client.messages.cancel({ all: true }));

  test("by their ids, each once", async () => {
    const [a, b, c] = await wait(3);
    assert.deepEqual(await client.messages.cancel([a, b, "msg_unknown"]), { cancelled: 2 });
    assert.deepEqual(await client.messages.cancel([a, b]), { cancelled: 0 });
    assert.deepEqual(await client.messages.cancel({ messageIds: [c] }), { cancelled: 1 });
    await assertCancelled(a, b, c);
  });

  test("all of them, or as many as one likes", async () => {
    const all = await wait(5);
    assert.deepEqual(await client.messages.cancel({ all: true, count: 2 }), { cancelled: 2 });
    assert.deepEqual(await client.messages.cancel({ all: true }), { cancelled: 3 });
    assert.deepEqual(await client.messages.cancel({ all: true }), { cancelled: 0 });
    await assertCancelled(...all);
  });

  test("all of them, though the SDK sends a count of 100", async () => {
    await wait(101, { label: "many" });
    assert.deepEqual(await client.messages.cancel({ filter: { label: "many" } }), { cancelled: 101 });
    await wait(101);
    assert.deepEqual(await client.messages.cancel({ all: true }), { cancelled: 101 });
    await wait(101);
    assert.equal(await client.messages.deleteAll(), 101);
  });

  test("by the methods' older names", async () => {
    const [a, b, c] = await wait(3);
    assert.equal(await client.messages.deleteMany([a]), 1);
    assert.equal(await client.messages.deleteAll(), 2);
    await assertCancelled(a, b, c);
  });
});

describe("a message that waits is cancelled by", () => {
  const filters = {
    urlGroup: ["waiting", "other"],
    queueName: [["other", "waiting"], "other"],
    url: [sink.url("/ok/waiting"), sink.url("/ok")],
    host: [sink.host, "example.com"],
    path: ["/ok/waiting", "/ok"],
    label: [["paid", "other"], "pai"],
    flowControlKey: ["tenant/acme", "tenant"],
    callerIp: ["127.0.0.1", "203.0.113.1"],
    fromDate: [0, Date.now() + 3_600_000],
    toDate: [new Date(Date.now() + 3_600_000), 1],
  };
  before(async () => {
    await client.messages.cancel({ all: true });
    await client.urlGroups.addEndpoints({ name: "waiting", endpoints: [{ url: waiting.url }] });
  });

  /** Enqueues a message that every filter can name. */
  async function enqueue() {
    const queue = client.queue({ queueName: "waiting" });
    const [{ messageId }] = await queue.enqueue({
      urlGroup: "waiting",
      delay: "1h",
      label: ["order", "paid"],
      flowControl: { key: "tenant/acme", parallelism: 1 },
    });
    return messageId;
  }

  for (const [name, [match, other]] of Object.entries(filters)) {
    test(name, async () => {
      const messageId = await enqueue();
      assert.deepEqual(await client.messages.cancel({ filter: { [name]: other } }), { cancelled: 0 });
      assert.deepEqual(await client.messages.cancel({ filter: { [name]: match } }), { cancelled: 1 });
      await assertCancelled(messageId);
    });
  }

  test("several filters, which it must pass all", async () => {
    const messageId = await enqueue();
    assert.deepEqual(await client.messages.cancel({ filter: { label: "paid", queueName: "other" } }), { cancelled: 0 });
    assert.deepEqual(await client.messages.cancel({ filter: { scheduleId: "scd_1" } }), { cancelled: 0 });
    assert.deepEqual(await client.messages.cancel({ filter: { label: "paid", queueName: "waiting" } }), { cancelled: 1 });
    await assertCancelled(messageId);
  });

  test("no filter that does not exist", async () => {
    await assert.rejects(client.messages.cancel({ filter: { labeel: "paid" } }), answered(400));
  });
});
