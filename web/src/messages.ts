// What can be done to one message that waits, or that is in the DLQ.

import { call, get } from "./api";
import { withoutBodies } from "./logpages";
import type { DeadLetter } from "./types";

// runMessageNow makes a message due at once that waits for its delay, its sleep or its next
// attempt. In a queue, or in flight, the server refuses that and says why.
export function runMessageNow(id: string): Promise<unknown> {
  return call("POST", `/v2/messages/${encodeURIComponent(id)}/retry`);
}

// letterOf returns the id of a message's dead letter while there is one.
export async function letterOf(messageId: string, signal: AbortSignal): Promise<string | undefined> {
  const page = await get<{ messages: DeadLetter[] }>("/v2/dlq", { messageId, trimBody: withoutBodies }, signal);
  return page.messages[0]?.dlqId;
}

// retryLetter publishes the message again in place of its dead letter, and returns the id of
// the new message.
export async function retryLetter(id: string): Promise<string> {
  const made = await call<{ messageId: string }>("POST", "/v2/dlq/retry/" + encodeURIComponent(id));
  tellGone(id);
  return made.messageId;
}

export async function deleteLetter(id: string): Promise<void> {
  await call("DELETE", "/v2/dlq/" + encodeURIComponent(id));
  tellGone(id);
}

const listeners = new Set<(id: string) => void>();

function tellGone(id: string): void {
  listeners.forEach((listener) => listener(id));
}

// whenGone calls a list of dead letters when one is gone; what it returns ends that.
export function whenGone(then: (id: string) => void): () => void {
  listeners.add(then);
  return () => void listeners.delete(then);
}
