// Deduplication, callbacks, and what a publication may not be.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { states, story } from "../logs.mjs";
import { answered, assertSigned, assertSince, base64, client, deadLetterOf, eventually, messagesTo, sink } from "./setup.mjs";

describe("deduplication", () => {
  test("by id answers with the first message", async () => {
    const url = sink.url("/ok/once");
    const first = await client.publish({ url, body: "one", deduplicationId: "order-7" });
    const second = await client.publish({ url, body: "two", deduplicationId: "order-7" });
    assert.deepEqual(second, { messageId: first.messageId, deduplicated: true });
    const other = await client.publish({ url, body: "one", deduplicationId: "order-8" });
    assert.notEqual(other.messageId, first.messageId);
    assert.equal(other.deduplicated, undefined);
    await story(client, other.messageId);
    assert.deepEqual(await messagesTo(url), [first.messageId, other.messageId]);
  });

  test("by content looks at the body, the destination and the headers", async () => {
    const message = { url: sink.url("/ok/content"), body: { order: 7 }, contentBasedDeduplication: true };
    const publish = (changes) => client.publishJSON({ ...message, ...changes });
    const first = await publish({});
    assert.deepEqual(await publish({}), { messageId: first.messageId, deduplicated: true });
    const changes = {
      body: { body: { order: 8 } },
      destination: { url: sink.url("/ok/content?again") },
      header: { headers: { "X-Trace": "t-1" } },
    };
    for (const [name, change] of Object.entries(changes)) {
      assert.deepEqual(Object.keys(await publish(change)), ["messageId"], name);
    }
  });

  test("of a group answers with all of its messages", async () => {
    await client.urlGroups.addEndpoints({
      name: "once",
      endpoints: [{ url: sink.url("/ok/once/a") }, { url: sink.url("/ok/once/b") }],
    });
    const request = { urlGroup: "once", body: "one", deduplicationId: "group-7" };
    const first = await client.publish(request);
    assert.equal(first.length, 2);
    const again = first.map((receipt) => ({ ...receipt, deduplicated: true }));
    assert.deepEqual(await client.publish(request), again);
  });
});

/** Returns the deliveries to a callback's URL as soon as there are `count`, each with its body decoded. */
async function callbacks(url, count) {
  const made = await eventually(async () => {
    const all = await messagesTo(url);
    return all.length >= count ? all : undefined;
  });
  assert.equal(made.length, count);
  const deliveries = [];
  for (const messageId of made) {
    const [delivery] = await sink.delivered(messageId);
    deliveries.push({ ...delivery, messageId, told: JSON.parse(delivery.body) });
  }
  return deliveries;
}

describe("a callback", () => {
  test("tells of the answer, signed and with its own headers", async () => {
    const url = sink.url("/ok/work");
    const callback = sink.url("/ok/callback?of=work");
    const before = Date.now();
    const { messageId } = await client.publishJSON({
      url,
      callback,
      retries: 2,
      body: { order: 7 },
      headers: { "X-Trace": "t-1", "Upstash-Callback-Forward-X-Origin": "work", "Upstash-Callback-Method": "PUT" },
    });
    const [{ method, headers, told, ...delivery }] = await callbacks(callback, 1);
    await assertSigned({ headers, ...delivery });
    assert.equal(method, "PUT");
    assert.equal(headers["x-origin"], "work");
    assert.equal(headers["content-type"], "application/json");
    assert.equal(headers["x-trace"], undefined);
    const { header, createdAt, notBefore, ...rest } = told;
    assert.deepEqual(header["X-Sink"], ["ok"]);
    assertSince(before, createdAt);
    assert.equal(notBefore, createdAt);
    assert.deepEqual(rest, {
      status: 200,
      body: base64("taken"),
      retried: 0,
      maxRetries: 2,
      sourceMessageId: messageId,
      url,
      method: "POST",
      sourceHeader: { "Content-Type": ["application/json"], "X-Trace": ["t-1"] },
      sourceBody: base64('{"order":7}'),
      callerIP: "127.0.0.1",
    });
  });

  test("tells of every attempt", async () => {
    const callback = sink.url("/ok/callback?of=attempts");
    await client.publish({ url: sink.url("/flaky/attempts"), callback, retries: 2, retryDelay: "10" });
    const told = (await callbacks(callback, 3)).map(({ told }) => [told.retried, told.status, told.maxRetries]);
    assert.deepEqual(told.sort(), [[0, 503, 2], [1, 503, 2], [2, 200, 2]]);
  });

  test("is a message of its own, retried until it is taken", async () => {
    const callback = sink.url("/flaky/callback");
    const { messageId } = await client.publish({
      url: sink.url("/ok/retried"),
      callback,
      headers: { "Upstash-Callback-Retries": "2", "Upstash-Callback-Retry-Delay": "10" },
    });
    const [{ messageId: own }] = await callbacks(callback, 1);
    assert.equal(states(await story(client, own)), "CREATED ACTIVE ERROR RETRY ACTIVE ERROR RETRY ACTIVE DELIVERED");
    assert.equal((await client.messages.get(own)).maxRetries, 2);
    assert.equal((await client.messages.get(messageId)).callback, callback);
  });
});

describe("a failure callback", () => {
  test("tells of the failure and of the dead letter, once and signed", async () => {
    const failureCallback = sink.url("/ok/failed?of=work");
    const { messageId } = await client.publish({
      url: sink.url("/broken/work"),
      failureCallback,
      retries: 1,
      retryDelay: "10",
      body: "work",
      headers: { "Upstash-Failure-Callback-Forward-X-Origin": "work" },
    });
    const [{ headers, told, ...delivery }] = await callbacks(failureCallback, 1);
    await assertSigned({ headers, ...delivery });
    assert.equal(headers["x-origin"], "work");
    assert.equal(told.sourceMessageId, messageId);
    assert.deepEqual([told.status, told.retried, told.maxRetries], [500, 1, 1]);
    assert.equal(told.body, base64("broken"));
    assert.equal(told.sourceBody, base64("work"));
    assert.equal(told.dlqId, (await deadLetterOf(messageId)).dlqId);
  });

  test("does not tell of a delivery", async () => {
    const failureCallback = sink.url("/ok/failed?of=nothing");
    const { messageId } = await client.publish({ url: sink.url("/ok/fine"), failureCallback });
    assert.equal(states(await story(client, messageId)), "CREATED ACTIVE DELIVERED");
    assert.deepEqual(await messagesTo(failureCallback), []);
  });
});

describe("a publication is refused", () => {
  const url = sink.url("/ok/refused");
  const refusals = {
    "to a group that does not exist": [{ urlGroup: "nowhere" }, 404, /topic nowhere not found/],
    "to a URL without a scheme": [{ url: "example.com/path" }, 400, /add http:\/\/ or https:\/\//],
    "with a delay that is none": [{ url, delay: "soon" }, 400, /soon/],
    "with a retry delay that is none": [{ url, retryDelay: "sleep(7)" }, 400, /sleep/],
    "to the hosted models": [{ api: { name: "llm" }, callback: url }, 400, /llm/],
  };
  for (const [name, [request, status, text]] of Object.entries(refusals)) {
    test(name, async () => {
      await assert.rejects(client.publish({ body: "", ...request }), (error) => answered(status)(error) && text.test(error.message));
    });
  }
});
