// Answers of calls around the size of which one is kept, on a server with the limits that
// it has unless they are set: 1 MiB of an answer is kept, and must be acceptable as the
// result of a step; of what is larger no part may pass for the whole.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { destination, resultFrom, testNoMoreCalls, workflow } from "./setup.mjs";

const KEPT = 1024 * 1024;

/** Starts a run that calls for an answer, and returns its result and the calls. */
async function answerTo(path, answer) {
  const third = destination(`${path}/third`, () => answer());
  const route = workflow(path, async (context) => {
    const { status, body } = await context.call("call", { url: third.url, retries: 2, retryDelay: "10" });
    return { status, text: typeof body === "string" ? body.slice(0, 300) : body, length: body.length };
  });
  const result = await resultFrom(route);
  await third.called(1);
  await route.called(3);
  return result;
}

const text = { headers: { "Content-Type": "text/plain" } };

describe("an answer", { concurrency: true }, () => {
  for (const [name, character] of Object.entries({ quotes: '"', controls: "\u0001", letters: "ä" })) {
    test(`of ${name} that is kept whole becomes the result of its step`, async () => {
      const whole = Buffer.from(character.repeat(KEPT / Buffer.byteLength(character)));
      const { status, length } = await answerTo(`/${name}`, () => new Response(whole, text));
      assert.deepEqual([status, length], [200, KEPT / Buffer.byteLength(character)]);
    });
  }

  test("of one byte more is a failure that says so", async () => {
    const { status, text: body } = await answerTo("/larger", () => new Response("x".repeat(KEPT + 1), text));
    assert.equal(status, 502);
    assert.match(JSON.parse(body).message, /^the destination responded with the status 200 and a body of more than 1048576 bytes/);
  });
});

testNoMoreCalls();
