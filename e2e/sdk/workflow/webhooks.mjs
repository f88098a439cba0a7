// Webhooks: URLs of the server that anybody may call, and the runs that wait for
// those calls (contract, workflows 4.7).
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { destination, resultFrom, resultOf, start, testNoMoreCalls, workflow } from "./setup.mjs";

/** What a run keeps of the request that had come to its webhook. */
async function kept({ timeout, request }) {
  if (timeout) return { timeout };
  const { url, method, headers } = request;
  return { timeout, url, method, key: headers.get("x-key"), body: await request.text() };
}

describe("a webhook", { concurrency: true }, () => {
  // createWebhook, the wait in vain, createWebhook, 2 for the call and its result, the wait, one step: 7; 1 to finish.
  test("is called by a third party", async () => {
    let url;
    const third = destination("/third", async (request) => {
      ({ url } = await request.json());
      const body = JSON.stringify({ paid: true });
      const { status } = await fetch(url, { method: "PUT", body, headers: { "Content-Type": "application/json", "X-Key": "k" } });
      return new Response(null, { status });
    });
    const route = workflow("/called", async (context) => {
      const forgotten = await context.createWebhook("create one");
      const { timeout } = await context.waitForWebhook("wait for one", forgotten, "1s");
      const webhook = await context.createWebhook("create another");
      const { status } = await context.call("tell", { url: third.url, method: "POST", body: JSON.stringify({ url: webhook.webhookUrl }) });
      const request = await kept(await context.waitForWebhook("wait for another", webhook, "30s"));
      return context.run("all of it", () => ({ timeout, status, request }));
    });
    const result = await resultFrom(route);
    assert.deepEqual(result, {
      timeout: true,
      status: 200,
      request: { timeout: false, url, method: "PUT", key: "k", body: '{"paid":true}' },
    });
    await third.called(1);
    await route.called(8);
  });

  test("is called while the run waits", async () => {
    let url;
    const route = workflow("/waiting", async (context) => {
      const webhook = await context.createWebhook("create");
      url = webhook.webhookUrl;
      return kept(await context.waitForWebhook("wait", webhook, "30s"));
    });
    const id = await start(route);
    await route.called(2);
    const response = await fetch(`${url}?from=outside`, { headers: { "X-Key": "k" } });
    assert.equal(response.status, 200);
    await response.json();
    const result = await resultOf(id);
    assert.deepEqual(result, { timeout: false, url: `${url}?from=outside`, method: "GET", key: "k", body: "" });
    await route.called(3);
  });

  test("is called twice before the run waits twice", async () => {
    const route = workflow("/twice", async (context) => {
      const webhook = await context.createWebhook("create");
      await context.run("call it twice", async () => {
        for (const body of ["one", "two"]) await fetch(webhook.webhookUrl, { method: "POST", body });
      });
      const first = await kept(await context.waitForWebhook("first", webhook, "30s"));
      const second = await kept(await context.waitForWebhook("second", webhook, "30s"));
      return [first.body, second.body];
    });
    assert.deepEqual(await resultFrom(route), ["one", "two"]);
    await route.called(5);
  });

  test("is gone with its run", async () => {
    let url;
    const route = workflow("/gone", async (context) => {
      url = (await context.createWebhook("create")).webhookUrl;
    });
    await resultFrom(route);
    for (const gone of [url, url.replace(/wfr_[^/]+/, "wfr_unknown"), url.replace(/hooks\/[^/]+/, "hooks/nobody")]) {
      assert.equal((await fetch(gone, { method: "POST" })).status, 404, gone);
    }
    await route.called(2);
  });
});

testNoMoreCalls();
