// Schedules, as far as they can be tested without waiting for a tick.
import assert from "node:assert/strict";
import { after, describe, test } from "node:test";
import { answered, assertSince, client, sink } from "./setup.mjs";

/** The schedules of a list with an id. */
async function listed(scheduleId) {
  return (await client.schedules.list()).filter((schedule) => schedule.scheduleId === scheduleId);
}

describe("a schedule", () => {
  const scheduleId = "nightly.report-1";
  after(() => client.schedules.delete(scheduleId));

  test("with settings of every kind is read back", async () => {
    const started = Date.now();
    const created = await client.schedules.create({
      scheduleId,
      destination: sink.url("/ok/report?of=night"),
      cron: "CRON_TZ=America/New_York 0 3 * * 1-5",
      method: "PUT",
      body: '{"report":"full"}',
      headers: { "X-Tenant": "acme" },
      delay: "1m",
      timeout: "30s",
      retries: 2,
      retryDelay: "1000 * (1 + retried)",
      callback: sink.url("/ok/callback"),
      failureCallback: sink.url("/ok/failed"),
      queueName: "reports",
      label: ["report", "night"],
      flowControl: { key: "reports", parallelism: 2, rate: 10, period: "1m" },
    });
    assert.deepEqual(created, { scheduleId });
    const { createdAt, nextScheduleTime, ...schedule } = await client.schedules.get(scheduleId);
    assertSince(started, createdAt);
    assert.ok(nextScheduleTime > Date.now(), "the next tick is over");
    const next = new Date(nextScheduleTime).toLocaleString("en-GB", { timeZone: "America/New_York", timeStyle: "medium" });
    assert.equal(next, "03:00:00");
    assert.deepEqual(schedule, {
      scheduleId,
      destination: sink.url("/ok/report?of=night"),
      cron: "CRON_TZ=America/New_York 0 3 * * 1-5",
      method: "PUT",
      body: '{"report":"full"}',
      header: { "Content-Type": ["application/json"], "X-Tenant": ["acme"] },
      delay: 60,
      timeout: 30_000,
      retries: 2,
      retryDelayExpression: "1000 * (1 + retried)",
      callback: sink.url("/ok/callback"),
      failureCallback: sink.url("/ok/failed"),
      queueName: "reports",
      label: "report",
      labels: ["report", "night"],
      flowControlKey: "reports",
      parallelism: 2,
      rate: 10,
      ratePerSecond: 10,
      period: 60,
      callerIP: "127.0.0.1",
      callerIp: "127.0.0.1",
      isPaused: false,
    });
    assert.deepEqual(await listed(scheduleId), [await client.schedules.get(scheduleId)]);
  });

  test("with a known id replaces everything", async () => {
    const { createdAt } = await client.schedules.get(scheduleId);
    await client.schedules.create({ scheduleId, destination: sink.url("/ok/report"), cron: "0 4 * * *" });
    const { nextScheduleTime, ...schedule } = await client.schedules.get(scheduleId);
    assert.equal(new Date(nextScheduleTime).getUTCHours(), 4);
    assert.deepEqual(schedule, {
      scheduleId,
      createdAt,
      destination: sink.url("/ok/report"),
      cron: "0 4 * * *",
      method: "POST",
      header: { "Content-Type": ["application/json"] },
      retries: 3,
      callerIP: "127.0.0.1",
      callerIp: "127.0.0.1",
      isPaused: false,
    });
  });

  test("is paused and resumed, both as often as one likes", async () => {
    for (const [act, isPaused] of [["pause", true], ["pause", true], ["resume", false], ["resume", false]]) {
      await client.schedules[act]({ schedule: scheduleId });
      assert.equal((await client.schedules.get(scheduleId)).isPaused, isPaused);
    }
    await assert.rejects(client.schedules.pause({ schedule: "unknown" }), answered(404));
  });

  test("without an id gets one, and can be deleted", async () => {
    const { scheduleId } = await client.schedules.create({ destination: sink.url("/ok/report"), cron: "@daily" });
    assert.match(scheduleId, /^scd_\w+$/);
    await client.schedules.delete(scheduleId);
    await assert.rejects(client.schedules.get(scheduleId), answered(404));
    assert.deepEqual(await listed(scheduleId), []);
  });

  test("needs a cron expression and an id that are well-formed", async () => {
    const destination = sink.url("/ok/report");
    const faults = {
      "six fields": { cron: "0 0 3 * * *" },
      "no such hour": { cron: "0 24 * * *" },
      "no such zone": { cron: "CRON_TZ=Mars/Olympus 0 3 * * *" },
      "a blank in the id": { cron: "0 3 * * *", scheduleId: "with blank" },
    };
    for (const [name, fault] of Object.entries(faults)) {
      await assert.rejects(client.schedules.create({ destination, ...fault }), answered(400), name);
    }
  });
});
