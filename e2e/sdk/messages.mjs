// An app that uses the unmodified npm package @upstash/qstash for all it offers
// for single messages. It configures nothing: the client and the receiver take
// the server and the keys from the environment, as apps do in production, or,
// with QSTASH_DEV=true, from development mode.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { Client, QstashError, Receiver, SignatureError } from "@upstash/qstash";
import { allPages, states, story } from "./logs.mjs";
import { Sink } from "./sink.mjs";

const client = new Client();
const sink = await Sink.open();
after(() => sink.close());

/** What stands for a redacted value. */
function redacted(value) {
  return "REDACTED:" + createHash("sha256").update(value).digest("hex");
}

function base64(text) {
  return Buffer.from(text).toString("base64");
}

describe("a message with settings of every kind", () => {
  const body = JSON.stringify({ order: 7 });
  let published; // when, Unix ms
  let messageId;
  let entries;

  before(async () => {
    published = Date.now();
    const receipt = await client.publishJSON({
      url: sink.url("/ok/orders?from=app"),
      method: "PUT",
      body: { order: 7 },
      headers: { "X-Tenant": "acme", "X-Trace": "t-1" },
      delay: 1,
      retries: 2,
      retryDelay: "1000 * (1 + retried)",
      timeout: "30s",
      label: ["orders", "eu"],
      flowControl: { key: "tenant/acme", parallelism: 2, rate: 10, period: "1m" },
      redact: { body: true, header: ["X-Tenant"] },
    });
    assert.deepEqual(Object.keys(receipt), ["messageId"]);
    assert.match(receipt.messageId, /^msg_\w+$/);
    messageId = receipt.messageId;
    entries = await story(client, messageId);
  });

  test("is delivered as it was published, after its delay", async () => {
    const [delivery] = await sink.delivered(messageId);
    assert.equal(delivery.method, "PUT");
    assert.equal(delivery.path, "/ok/orders?from=app");
    assert.equal(delivery.body, body);
    assert.ok(delivery.at >= published + 1000, `it arrived ${delivery.at - published} ms after it was published`);
  });

  test("is delivered with the forwarded headers and those of the service", async () => {
    const [{ headers }] = await sink.delivered(messageId);
    const { "upstash-signature": signature, ...others } = headers;
    assert.match(signature, /^[\w-]+\.[\w-]+\.[\w-]+$/);
    assert.deepEqual(others, {
      "content-length": String(body.length),
      "content-type": "application/json",
      host: sink.host,
      "upstash-caller-ip": "127.0.0.1",
      "upstash-label": "orders,eu",
      "upstash-message-id": messageId,
      "upstash-region": "EU-CENTRAL-1",
      "upstash-retried": "0",
      "user-agent": "Upstash-QStash",
      "x-tenant": "acme",
      "x-trace": "t-1",
    });
  });

  test("is read back, with the redacted values hidden", async () => {
    const { createdAt, ...message } = await client.messages.get(messageId);
    assert.ok(createdAt >= published && createdAt <= Date.now(), `createdAt is ${createdAt}`);
    assert.deepEqual(message, {
      messageId,
      url: sink.url("/ok/orders?from=app"),
      urlGroup: undefined,
      method: "PUT",
      header: {
        "Content-Type": ["application/json"],
        "X-Tenant": [redacted("acme")],
        "X-Trace": ["t-1"],
      },
      body: redacted(body),
      maxRetries: 2,
      retryDelayExpression: "1000 * (1 + retried)",
      notBefore: createdAt + 1000,
      callerIP: "127.0.0.1",
      label: "orders",
      labels: ["orders", "eu"],
      flowControlKey: "tenant/acme",
      parallelism: 2,
      rate: 10,
      ratePerSecond: 10,
      period: 60,
    });
  });

  test("has a log of every change, with the redacted values hidden", () => {
    assert.equal(states(entries), "CREATED ACTIVE DELIVERED");
    assert.equal(entries[0].nextDeliveryTime, entries[0].time + 1000);
    for (const entry of entries) {
      assert.equal(entry.messageId, messageId);
      assert.equal(entry.url, sink.url("/ok/orders?from=app"));
      assert.equal(entry.body, redacted(body));
      assert.deepEqual(entry.header["X-Tenant"], [redacted("acme")]);
      assert.equal(entry.method, "PUT");
      assert.equal(entry.maxRetries, 2);
      assert.equal(entry.timeout, 30_000);
      assert.deepEqual(entry.labels, ["orders", "eu"]);
      assert.equal(entry.flowControlKey, "tenant/acme");
    }
  });

  /** Returns the entries that pass a filter, of this message alone. */
  async function find(filter) {
    const { logs } = await client.logs({ filter: { messageId, ...filter } });
    return [...logs].reverse();
  }

  test("is found in the log by every filter", async (t) => {
    const filters = {
      messageId,
      url: [sink.url("/ok/orders?from=app")],
      host: sink.host,
      path: ["/elsewhere", "/ok/orders"],
      label: ["orders", "paid"],
      callerIp: "127.0.0.1",
      flowControlKey: "tenant/acme",
      fromDate: new Date(entries[0].time),
      toDate: entries.at(-1).time,
      api: "",
    };
    for (const [name, value] of Object.entries(filters)) {
      await t.test(name, async () => assert.deepEqual(await find({ [name]: value }), entries));
    }
  });

  test("is not found by a filter that it does not pass", async (t) => {
    const filters = {
      url: sink.url("/ok/orders"),
      urlGroup: "group",
      topicName: "group",
      scheduleId: "scd_1",
      queueName: ["queue"],
      host: "example.com",
      path: "/ok",
      label: "order",
      callerIp: "203.0.113.1",
      flowControlKey: "tenant",
      state: "FAILED",
      fromDate: entries.at(-1).time + 1,
      toDate: new Date(entries[0].time - 1),
    };
    for (const [name, value] of Object.entries(filters)) {
      await t.test(name, async () => assert.deepEqual(await find({ [name]: value }), []));
    }
  });

  test("is found by its states", async () => {
    assert.deepEqual(await find({ state: "CREATED" }), entries.slice(0, 1));
    assert.deepEqual(await find({ state: "IN_PROGRESS" }), entries.slice(1, 2));
    assert.deepEqual(await find({ state: "DELIVERED" }), entries.slice(2));
  });

  test("is found by ids and by pages", async () => {
    const latestFirst = [...entries].reverse();
    const { logs } = await client.logs({ messageIds: ["msg_unknown", messageId] });
    assert.deepEqual(logs, latestFirst);
    assert.deepEqual(await allPages(client, { filter: { messageId }, count: 1 }), latestFirst);
    const fromNow = await client.logs({ cursor: Date.now(), filter: { messageId } });
    assert.deepEqual(fromNow.logs, latestFirst);
    assert.equal(fromNow.cursor, undefined);
  });
});

describe("a message without settings", () => {
  test("is delivered as text, and its log shows what was sent", async () => {
    const { messageId } = await client.publish({ url: sink.url("/ok/plain"), body: "grüß Gott" });
    const [{ method, body, headers }] = await sink.delivered(messageId);
    assert.deepEqual([method, body, headers["content-type"]], ["POST", "grüß Gott", "text/plain;charset=UTF-8"]);
    const [created] = await story(client, messageId);
    assert.equal(created.body, base64("grüß Gott"));
    assert.deepEqual(created.header, { "Content-Type": ["text/plain;charset=UTF-8"] });
    assert.equal((await client.messages.get(messageId)).maxRetries, 3);
  });

  test("waits until the time that is asked for", async () => {
    const notBefore = Math.floor(Date.now() / 1000) + 2;
    const { messageId } = await client.publish({ url: sink.url("/ok/later"), notBefore });
    const waiting = await client.messages.get(messageId);
    assert.equal(waiting.notBefore, Math.max(waiting.createdAt, notBefore * 1000)); // it was published late if that is now
    const [{ at }] = await sink.delivered(messageId);
    assert.ok(at >= notBefore * 1000, `it arrived ${notBefore * 1000 - at} ms early`);
  });
});

describe("a message that its destination does not take", () => {
  test("is retried until it is taken", async () => {
    const { messageId } = await client.publish({
      url: sink.url("/flaky"),
      retries: 2,
      retryDelay: "10 * (1 + retried)",
    });
    const deliveries = await sink.delivered(messageId, 3);
    assert.deepEqual(deliveries.map(({ headers }) => headers["upstash-retried"]), ["0", "1", "2"]);
    const entries = await story(client, messageId);
    assert.equal(states(entries), "CREATED ACTIVE ERROR RETRY ACTIVE ERROR RETRY ACTIVE DELIVERED");
    for (const entry of entries.filter(({ state }) => state === "ERROR")) {
      assert.equal(entry.responseStatus, 503);
      assert.equal(entry.responseBody, base64("busy"));
      assert.deepEqual(entry.responseHeaders["X-Sink"], ["flaky"]);
      assert.ok(entry.error.length > 0);
    }
    for (const entry of entries.filter(({ state }) => state === "RETRY")) {
      assert.ok(entry.nextDeliveryTime >= entry.time, `the retry is due ${entry.time - entry.nextDeliveryTime} ms before`);
    }
  });

  test("fails when no retries are left", async () => {
    const { messageId } = await client.publish({ url: sink.url("/broken"), retries: 0 });
    assert.equal(states(await story(client, messageId)), "CREATED ACTIVE ERROR FAILED");
    assert.equal(sink.of(messageId).length, 1);
  });
});

describe("a message that is cancelled", () => {
  const notFound = (error) => error instanceof QstashError && error.status === 404;

  test("is gone, never delivered, and its log says so", async () => {
    const { messageId } = await client.publish({ url: sink.url("/ok/cancelled"), delay: "1h" });
    assert.equal((await client.messages.get(messageId)).messageId, messageId);
    assert.deepEqual(await client.messages.cancel(messageId), { cancelled: 1 });
    await assert.rejects(client.messages.get(messageId), notFound);
    assert.equal(states(await story(client, messageId)), "CREATED CANCEL_REQUESTED CANCELED");
    const { logs } = await client.logs({ filter: { messageId, state: "CANCELED" } });
    assert.equal(states(logs), "CANCELED");
    assert.equal(sink.of(messageId).length, 0);
  });

  test("can be cancelled by the method's older name", async () => {
    const { messageId } = await client.publish({ url: sink.url("/ok/deleted"), delay: "1h" });
    await client.messages.delete(messageId);
    assert.equal(states(await story(client, messageId)), "CREATED CANCEL_REQUESTED CANCELED");
  });

  test("can be one of many, by ids and by filters", async () => {
    const publish = async (label) =>
      (await client.publish({ url: sink.url("/ok/many"), delay: "1h", label })).messageId;
    const [first, second, third, fourth] = [await publish("one"), await publish("two"), await publish("two"), await publish("two")];
    assert.deepEqual(await client.messages.cancel([first, second, "msg_unknown"]), { cancelled: 2 });
    assert.deepEqual(await client.messages.cancel({ filter: { label: "two", host: sink.host } }), { cancelled: 2 });
    assert.deepEqual(await client.messages.cancel({ filter: { label: "two" } }), { cancelled: 0 });
    for (const messageId of [first, second, third, fourth]) {
      assert.equal(states(await story(client, messageId)), "CREATED CANCEL_REQUESTED CANCELED");
    }
  });

  test("must exist", async () => {
    await assert.rejects(client.messages.cancel("msg_unknown"), notFound);
  });
});

describe("a receiver", () => {
  const receiver = new Receiver();

  /** Publishes a body and returns what the receiver is asked about its delivery. */
  async function signed(body) {
    const url = sink.url("/ok/signed?a=1");
    const { messageId } = await client.publish({ url, body });
    const [delivery] = await sink.delivered(messageId);
    return { signature: delivery.headers["upstash-signature"], body: delivery.body, url };
  }

  test("verifies signatures before and after the keys are rotated", async () => {
    const keys = await client.http.request({ method: "GET", path: ["v2", "keys"] });
    const earlier = await signed("before the rotation");
    assert.equal(await receiver.verify(earlier), true);

    const rotated = await client.http.request({ method: "POST", path: ["v2", "keys", "rotate"] });
    assert.equal(rotated.current, keys.next);
    assert.match(rotated.next, /^sig_\w{28}$/);

    const later = await signed("after the rotation");
    assert.equal(await receiver.verify(later), true, "the receiver knows the key as the next one");
    const renewed = new Receiver({
      currentSigningKey: rotated.current,
      nextSigningKey: rotated.next,
      devMode: false,
    });
    assert.equal(await renewed.verify(later), true);
    await assert.rejects(renewed.verify(earlier), SignatureError);
  });

  test("refuses what is not as it was signed", async () => {
    const delivery = await signed("intact");
    assert.equal(await receiver.verify(delivery), true);
    await assert.rejects(receiver.verify({ ...delivery, body: "changed" }), SignatureError);
    await assert.rejects(receiver.verify({ ...delivery, url: sink.url("/ok/other") }), SignatureError);
  });
});
