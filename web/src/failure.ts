// What an answer says about an exception: its message, and where it was thrown.

import { messageOf } from "./saying";

export interface Failure {
  says: string; // "" if it says nothing
  stack: string; // with line breaks, "" if it has none
}

export function failureOf(body: string): Failure {
  const stack = stackIn(body) || (/^Traceback |\n\s+at \S/.test(body) && !body.trimStart().startsWith("<") ? body.trim() : "");
  return { says: messageOf(body), stack };
}

// stackIn returns the stack in a JSON object, its own or that of its error.
function stackIn(body: string): string {
  try {
    const value = JSON.parse(body);
    const stack = value?.stack ?? value?.error?.stack ?? value?.stackTrace ?? value?.traceback;
    return typeof stack === "string" ? stack : Array.isArray(stack) ? stack.join("\n") : "";
  } catch {
    return "";
  }
}
