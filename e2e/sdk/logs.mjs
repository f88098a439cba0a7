// Reading the log through the SDK.
import { PATIENCE } from "./limits.mjs";

const TERMINAL = new Set(["DELIVERED", "FAILED", "CANCELED"]);

/** Between two looks at the log, in milliseconds. */
const PAUSE = 20;

/**
 * Returns the entries of a message, oldest first, once the message has ended:
 * the destination has its delivery a moment before the log tells of it.
 */
export async function story(client, messageId) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const { logs } = await client.logs({ filter: { messageId } });
    if (logs.length > 0 && TERMINAL.has(logs[0].state)) return [...logs].reverse();
    if (Date.now() > deadline) throw new Error(`${messageId} has not ended: ${states(logs)}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** The states of entries as one text, to be compared. */
export function states(entries) {
  return entries.map((entry) => entry.state).join(" ");
}

/** Follows the cursor and returns the entries of all pages, as the log orders them. */
export async function allPages(client, request) {
  const entries = [];
  let cursor;
  do {
    const page = await client.logs({ ...request, cursor });
    entries.push(...page.logs);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return entries;
}
