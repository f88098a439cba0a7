// Calls of the HTTP API, as any client makes them.

import { signOut, token } from "./session";

// ApiError is an answer that is no success, with the sentence the server gave.
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | string[] | undefined> | URLSearchParams;

export interface CallOptions {
  query?: Query;
  headers?: Record<string, string> | [string, string][];
  body?: BodyInit;
  signal?: AbortSignal;
}

// onUnauthorized is called when the server does not take the token any more, with what it
// says.
let onUnauthorized: (sentence: string) => void = () => {};

export function whenUnauthorized(then: (sentence: string) => void): void {
  onUnauthorized = then;
}

export async function request(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const response = await fetch(path + encode(options.query), {
    method,
    headers: headersOf([["Authorization", "Bearer " + token()], ...pairs(options.headers)]),
    body: options.body,
    signal: options.signal,
    credentials: "omit",
    redirect: "error",
  });
  if (response.ok) {
    return response;
  }
  const says = sentence(await response.text()) || `the server answered ${response.status}`;
  if (response.status === 401) {
    signOut();
    onUnauthorized(says);
  }
  throw new ApiError(response.status, says);
}

function pairs(headers: CallOptions["headers"]): [string, string][] {
  return Array.isArray(headers) ? headers : Object.entries(headers ?? {});
}

// headersOf writes values as UTF-8, as other clients do: a browser takes one character for
// one byte.
function headersOf(given: [string, string][]): Headers {
  const headers = new Headers();
  for (const [name, value] of given) {
    try {
      headers.append(name, String.fromCharCode(...new TextEncoder().encode(value)));
    } catch {
      throw new Error(`a browser cannot send the header ${JSON.stringify(name)} with the value ${JSON.stringify(value)}: a name consists of letters, digits and -, and a value is a single line`);
    }
  }
  return headers;
}

// call makes a request and reads its answer; one without a body is null.
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const response = await request(method, path, options);
  const text = await response.text();
  return (text === "" ? null : JSON.parse(text)) as T;
}

export function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return call<T>("GET", path, { query, signal });
}

export function post<T>(path: string, body?: unknown, options: CallOptions = {}): Promise<T> {
  return call<T>("POST", path, body === undefined ? options : { ...options, body: JSON.stringify(body) });
}

function encode(query: Query | undefined): string {
  if (query === undefined) {
    return "";
  }
  if (!(query instanceof URLSearchParams)) {
    const params = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== undefined && one !== "") {
          params.append(name, String(one));
        }
      }
    }
    query = params;
  }
  const text = query.toString();
  return text === "" ? "" : "?" + text;
}

function sentence(text: string): string {
  try {
    return String(JSON.parse(text).error ?? "");
  } catch {
    return text.slice(0, 300);
  }
}

// explain turns whatever was thrown into a sentence.
export function explain(error: unknown): string {
  if (error instanceof ApiError) {
    return error.message;
  }
  if (error instanceof TypeError) {
    return "the server cannot be reached";
  }
  return error instanceof Error ? error.message : String(error);
}

// wasRefused reports whether an error is an answer that says what was wrong with the
// request: nothing was changed by it. Of other errors nobody here knows.
export function wasRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}

// orNull answers null where a thing is not there.
export async function orNull<T>(asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) {
      return null;
    }
    throw error;
  }
}
