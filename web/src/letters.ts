// The dead letter of one message, and what can be done to it.

import { call, get } from "./api";
import { withoutBodies } from "./logpages";
import type { DeadLetter } from "./types";

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
