// URL groups.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { states, story } from "../logs.mjs";
import { answered, assertSince, client, ids, sink } from "./setup.mjs";

describe("a URL group", () => {
  const name = "orders";
  const east = { name: "First endpoint", url: sink.url("/ok/east") };
  const west = { url: sink.url("/ok/west") };
  const started = Date.now();
  before(() => client.urlGroups.addEndpoints({ name, endpoints: [east, west] }));
  after(() => client.urlGroups.delete(name));

  test("is read back", async () => {
    const { createdAt, updatedAt, ...group } = await client.urlGroups.get(name);
    assertSince(started, createdAt);
    assertSince(createdAt, updatedAt);
    assert.deepEqual(group, { name, endpoints: [east, west] });
    const listed = (await client.urlGroups.list()).filter((group) => group.name === name);
    assert.deepEqual(listed, [{ createdAt, updatedAt, ...group }]);
  });

  test("takes and loses endpoints", async () => {
    const moved = { name: east.name, url: sink.url("/ok/moved") };
    const north = { name: "north", url: sink.url("/ok/north") };
    await client.urlGroups.addEndpoints({ name, endpoints: [moved, north] });
    assert.deepEqual((await client.urlGroups.get(name)).endpoints, [moved, west, north]);
    await client.urlGroups.removeEndpoints({ name, endpoints: [{ name: "north" }] });
    await client.urlGroups.addEndpoints({ name, endpoints: [east] });
    assert.deepEqual((await client.urlGroups.get(name)).endpoints, [east, west]);
  });

  test("sends a message of its own to each endpoint", async () => {
    const receipts = await client.publishJSON({ urlGroup: name, body: { order: 7 } });
    assert.deepEqual(receipts.map(({ url }) => url), [east.url, west.url]);
    assert.notEqual(receipts[0].messageId, receipts[1].messageId);
    for (const { messageId, url } of receipts) {
      const [{ path, body, headers }] = await sink.delivered(messageId);
      assert.equal(sink.url(path), url);
      assert.equal(body, '{"order":7}');
      assert.equal(headers["upstash-topic-name"], name);
      assert.equal(headers["upstash-endpoint-name"], url === east.url ? east.name : undefined);
      assert.equal(states(await story(client, messageId)), "CREATED ACTIVE DELIVERED");
    }
    const message = await client.messages.get(receipts[0].messageId);
    assert.deepEqual([message.urlGroup, message.topicName, message.endpointName], [name, name, east.name]);
    const { logs } = await client.logs({ filter: { urlGroup: name, state: "DELIVERED" } });
    assert.deepEqual(ids(logs).sort(), ids(receipts).sort());
    assert.ok(logs.every((entry) => entry.urlGroup === name));
  });

  test("is gone with its last endpoint", async () => {
    await client.urlGroups.addEndpoints({ name: "brief", endpoints: [east] });
    await client.urlGroups.removeEndpoints({ name: "brief", endpoints: [{ url: east.url }] });
    await assert.rejects(client.urlGroups.get("brief"), answered(404));
  });

  test("can be deleted, also when it is not there", async () => {
    await client.urlGroups.addEndpoints({ name: "deleted", endpoints: [east] });
    await client.urlGroups.delete("deleted");
    await client.urlGroups.delete("deleted");
    await assert.rejects(client.urlGroups.get("deleted"), answered(404));
  });
});
