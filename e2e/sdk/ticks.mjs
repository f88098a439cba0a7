// Schedules through the unmodified npm package @upstash/qstash, up to the first
// tick: the shortest schedule ticks once a minute, which is how long this takes.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { answered, assertSigned, client, deadLetterOf, eventually, ids, messagesTo, sink } from "./areas/setup.mjs";

/** A minute and a margin, in milliseconds. */
const UNTIL_TICK = 90_000;

const everyMinute = "* * * * *";
const everyYear = "0 0 1 1 *";

/** Waits for the first message of a schedule and returns its id. */
async function firstMessage(scheduleId) {
  return eventually(async () => {
    const { logs } = await client.logs({ filter: { scheduleId, state: "CREATED" } });
    return ids(logs).at(-1);
  }, UNTIL_TICK);
}

describe("a schedule ticks", () => {
  before(async () => {
    await client.urlGroups.addEndpoints({ name: "ticks", endpoints: [{ name: "east", url: sink.url("/broken/tick") }] });
    await client.schedules.create({
      scheduleId: "failing",
      destination: "ticks",
      cron: everyMinute,
      body: '{"tick":true}',
      headers: { "X-Tenant": "acme" },
      retries: 0,
      queueName: "ticks",
      label: "tick",
    });
    await client.schedules.create({ scheduleId: "delayed", destination: sink.url("/ok/delayed"), cron: everyMinute, delay: "1h" });
    // Paused before it can tick: a minute may end between any two requests.
    await client.schedules.create({ scheduleId: "paused", destination: sink.url("/ok/paused"), cron: everyYear });
    await client.schedules.pause({ schedule: "paused" });
    await client.schedules.create({ scheduleId: "paused", destination: sink.url("/ok/paused"), cron: everyMinute });
  });

  test("with all of its settings", async () => {
    const messageId = await firstMessage("failing");
    const [{ body, path, headers }] = await sink.delivered(messageId);
    await assertSigned({ body, path, headers });
    assert.equal(body, '{"tick":true}');
    assert.equal(headers["x-tenant"], "acme");
    assert.equal(headers["upstash-schedule-id"], "failing");
    assert.equal(headers["upstash-topic-name"], "ticks");
    assert.equal(headers["upstash-queue-name"], "ticks");
    assert.equal(headers["upstash-label"], "tick");
    assert.equal(headers["upstash-caller-ip"], "127.0.0.1");

    const letter = await deadLetterOf(messageId);
    assert.equal(letter.scheduleId, "failing");
    const { messages } = await client.dlq.listMessages({ filter: { scheduleId: "failing" } });
    assert.deepEqual(ids(messages).at(-1), messageId);
    assert.deepEqual(await client.dlq.delete({ filter: { scheduleId: "delayed" } }), { deleted: 0 });
  });

  test("and knows what became of it", async () => {
    await deadLetterOf(await firstMessage("failing"));
    const { lastScheduleTime, nextScheduleTime, lastScheduleStates } = await client.schedules.get("failing");
    assert.equal(nextScheduleTime - lastScheduleTime, 60_000);
    assert.equal(nextScheduleTime % 60_000, 0);
    assert.equal(Object.keys(lastScheduleStates).length, 1);
    assert.ok(["FAIL", "IN_PROGRESS"].includes(Object.values(lastScheduleStates)[0]));
  });

  test("and its delayed messages can be cancelled", async () => {
    const messageId = await firstMessage("delayed");
    const { cancelled } = await client.messages.cancel({ filter: { scheduleId: "delayed" } });
    assert.ok(cancelled >= 1, "nothing was cancelled");
    await assert.rejects(client.messages.get(messageId), answered(404));
    assert.equal(sink.of(messageId).length, 0);
  });

  test("but not while it is paused", async () => {
    await firstMessage("failing");
    assert.deepEqual(await messagesTo(sink.url("/ok/paused")), []);
  });
});
