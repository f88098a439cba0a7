// Many messages in one request.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { states, story } from "../logs.mjs";
import { client, sink } from "./setup.mjs";

describe("a batch", () => {
  const endpoints = [{ name: "east", url: sink.url("/ok/batch/east") }, { url: sink.url("/ok/batch/west") }];
  before(() => client.urlGroups.addEndpoints({ name: "batch", endpoints }));

  test("answers each item in its place, good or bad", async () => {
    const url = sink.url("/ok/batch");
    const results = await client.batchJSON([
      { url, body: { item: 0 }, label: "batch" },
      { urlGroup: "nowhere", body: { item: 1 } },
      { urlGroup: "batch", body: { item: 2 } },
      { url, body: { item: 3 }, delay: "soon" },
      { url, body: { item: 4 }, queueName: "batch" },
      { urlGroup: "batch", body: { item: 5 }, queueName: "batch" },
      { url: "example.com/path", body: { item: 6 } },
    ]);
    assert.equal(results.length, 7);
    const [single, noGroup, group, noDelay, queued, queuedGroup, noScheme] = results;
    assert.match(noGroup.error, /topic nowhere not found/);
    assert.match(noDelay.error, /soon/);
    assert.match(noScheme.error, /add http:\/\/ or https:\/\//);
    assert.deepEqual(group.map(({ url }) => url), endpoints.map(({ url }) => url));
    assert.deepEqual(queuedGroup.map(({ url }) => url), endpoints.map(({ url }) => url));

    const expected = [[single, 0], [group[0], 2], [group[1], 2], [queued, 4], [queuedGroup[0], 5], [queuedGroup[1], 5]];
    for (const [{ messageId }, item] of expected) {
      const [{ body, headers }] = await sink.delivered(messageId);
      assert.deepEqual([body, headers["content-type"]], [JSON.stringify({ item }), "application/json"]);
      assert.equal(states(await story(client, messageId)), "CREATED ACTIVE DELIVERED");
    }
    assert.equal((await client.messages.get(single.messageId)).queueName, undefined);
    assert.equal((await client.messages.get(single.messageId)).label, "batch");
    assert.equal((await client.messages.get(queued.messageId)).queueName, "batch");
    const viaBoth = await client.messages.get(queuedGroup[0].messageId);
    assert.deepEqual([viaBoth.queueName, viaBoth.urlGroup, viaBoth.endpointName], ["batch", "batch", "east"]);
  });

  test("of plain bodies delivers them as they are", async () => {
    const url = sink.url("/ok/plain");
    const results = await client.batch([
      { url, body: "grüß Gott", method: "PATCH", headers: { "Content-Type": "text/x-greeting", "X-Tenant": "acme" } },
      { url },
    ]);
    const [greeting] = await sink.delivered(results[0].messageId);
    assert.deepEqual([greeting.method, greeting.body], ["PATCH", "grüß Gott"]);
    assert.deepEqual([greeting.headers["content-type"], greeting.headers["x-tenant"]], ["text/x-greeting", "acme"]);
    const [empty] = await sink.delivered(results[1].messageId);
    assert.deepEqual([empty.method, empty.body, empty.headers["content-type"]], ["POST", "", undefined]);
  });

  test("marks its duplicates one by one", async () => {
    const item = { url: sink.url("/ok/twice"), body: "once", deduplicationId: "batch-7" };
    const [first, second, other] = await client.batch([item, item, { ...item, deduplicationId: "batch-8" }]);
    assert.deepEqual(second, { messageId: first.messageId, deduplicated: true });
    assert.deepEqual(Object.keys(other), ["messageId"]);
  });
});
