// Flow control.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { story } from "../logs.mjs";
import { answered, client, eventually, sink } from "./setup.mjs";

/** Publishes with a flow-control key. */
function publish(key, limits, settings = {}) {
  return client.publish({ url: sink.url("/ok/flow"), flowControl: { key, ...limits }, ...settings });
}

describe("a flow-control key", () => {
  test("is there, with all its fields, as soon as a message names it", async () => {
    await publish("fields", { parallelism: 3, rate: 7, period: "1m" }, { delay: "1h" });
    const { ratePeriodStart, ...key } = await client.flowControl.get("fields");
    assert.equal(typeof ratePeriodStart, "number");
    assert.deepEqual(key, {
      flowControlKey: "fields",
      waitListSize: 0,
      parallelismMax: 3,
      parallelismCount: 0,
      rateMax: 7,
      rateCount: 0,
      ratePeriod: 60,
      isPinnedParallelism: false,
      isPinnedRate: false,
      isPaused: false,
    });
    await assert.rejects(client.flowControl.get("unknown"), answered(404));
  });

  test("counts attempts, and forgets them when it is reset", async () => {
    const { messageId } = await publish("tenant/acme 1", { rate: 5, period: "1h" });
    await story(client, messageId);
    assert.equal((await client.flowControl.get("tenant/acme 1")).rateCount, 1);
    await client.flowControl.resetRate("tenant/acme 1");
    assert.equal((await client.flowControl.get("tenant/acme 1")).rateCount, 0);
  });

  test("holds back what is over its rate until the rate is reset", async () => {
    const first = await publish("slow", { rate: 1, period: "1h" });
    await story(client, first.messageId);
    const second = await publish("slow", { rate: 1, period: "1h" });
    await eventually(async () => ((await client.flowControl.get("slow")).waitListSize === 1 ? true : undefined));
    assert.equal(sink.of(second.messageId).length, 0);
    await client.flowControl.resetRate("slow");
    await sink.delivered(second.messageId);
  });

  test("holds back everything while it is paused", async () => {
    await client.flowControl.pause("paused");
    const { messageId } = await publish("paused", { parallelism: 1 });
    const { isPaused, waitListSize } = await client.flowControl.get("paused");
    assert.deepEqual([isPaused, waitListSize], [true, 1]);
    assert.equal(sink.of(messageId).length, 0);
    await client.flowControl.resume("paused");
    await sink.delivered(messageId);
    assert.equal((await client.flowControl.get("paused")).isPaused, false);
  });

  test("keeps pinned limits whatever messages bring", async () => {
    const limits = async () => {
      const key = await client.flowControl.get("pinned");
      return [key.parallelismMax, key.isPinnedParallelism, key.rateMax, key.ratePeriod, key.isPinnedRate];
    };
    await client.flowControl.pin("pinned", { parallelism: 3, rate: 5, period: 120 });
    assert.deepEqual(await limits(), [3, true, 5, 120, true]);
    await publish("pinned", { parallelism: 9, rate: 90, period: "1s" });
    assert.deepEqual(await limits(), [3, true, 5, 120, true]);

    await client.flowControl.unpin("pinned", { parallelism: true });
    assert.deepEqual(await limits(), [3, false, 5, 120, true]);
    await publish("pinned", { parallelism: 9, rate: 90, period: "1s" });
    assert.deepEqual(await limits(), [9, false, 5, 120, true]);

    await client.flowControl.unpin("pinned", { rate: true });
    assert.deepEqual(await limits(), [9, false, 5, 120, false]);
    await publish("pinned", { parallelism: 9, rate: 90, period: "10s" });
    assert.deepEqual(await limits(), [9, false, 90, 10, false]);
    await assert.rejects(client.flowControl.pin("pinned", { rate: -1 }), answered(400));
  });
});

test("the global parallelism tells what is in flight", async () => {
  const { parallelismMax, parallelismCount } = await client.flowControl.getGlobalParallelism();
  assert.ok(parallelismMax > 0, `parallelismMax is ${parallelismMax}`);
  assert.ok(parallelismCount >= 0 && parallelismCount <= parallelismMax, `parallelismCount is ${parallelismCount}`);
});
