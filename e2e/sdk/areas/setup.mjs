// What the areas share: one client and one receiver that take the server and the
// keys from the environment, and one destination.
import assert from "node:assert/strict";
import { after } from "node:test";
import { Client, QstashError, Receiver } from "@upstash/qstash";
import { PATIENCE } from "../limits.mjs";
import { story, states } from "../logs.mjs";
import { Sink } from "../sink.mjs";

export const client = new Client();
export const receiver = new Receiver();
export const sink = await Sink.open();
after(() => sink.close());

/** Between two looks, in milliseconds. */
const PAUSE = 20;

/** Calls a function until what it returns is not undefined, and returns that. */
export async function eventually(look, patience = PATIENCE) {
  const deadline = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${look}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** Whether an error is an answer of the server with this status. */
export function answered(status) {
  return (error) => error instanceof QstashError && error.status === status;
}

export function base64(text) {
  return Buffer.from(text).toString("base64");
}

/** The ids of the messages of a list of receipts, log entries or messages. */
export function ids(receipts) {
  return receipts.map(({ messageId }) => messageId);
}

/** Asserts that a time in Unix milliseconds lies between a moment and now. */
export function assertSince(from, time) {
  assert.ok(time >= from && time <= Date.now(), `${time} is not between ${from} and ${Date.now()}`);
}

/** Waits until a message has failed for good and returns its dead letter. */
export async function deadLetterOf(messageId) {
  assert.match(states(await story(client, messageId)), / FAILED$/);
  const { messages, cursor } = await client.dlq.listMessages({ filter: { messageId } });
  assert.deepEqual(ids(messages), [messageId]);
  assert.equal(cursor, undefined);
  return messages[0];
}

/** The ids of all messages that were ever made for a URL, the oldest first. */
export async function messagesTo(url) {
  const { logs } = await client.logs({ filter: { url, state: "CREATED" } });
  return ids(logs).reverse();
}

/** Asserts that a delivery is signed for the URL it went to. */
export async function assertSigned({ headers, body, path }) {
  const signature = headers["upstash-signature"];
  assert.equal(await receiver.verify({ signature, body, url: sink.url(path) }), true);
}
