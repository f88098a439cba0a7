// What the areas share: one client that takes the server from the environment,
// one app, and waiting for runs.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client, serve } from "@upstash/workflow";
import { createWorkflow, serveMany } from "@upstash/workflow/react-router";
import { PATIENCE } from "../limits.mjs";
import { App } from "./app.mjs";

export { createWorkflow };

// The SDK writes every failure to the console, and most here are wanted.
console.error = console.warn = () => {};

export const client = new Client();
export const app = await App.open();
after(() => app.close());

/** Between two looks, in milliseconds. */
const PAUSE = 50;

/** The states that runs end in. */
const ENDS = ["RUN_SUCCESS", "RUN_FAILED", "RUN_CANCELED"];

/** Calls a function until what it returns is not undefined, and returns that. */
export async function eventually(look, describe = () => look) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`waited in vain for ${await describe()}`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** The last test of every area: what came late counts, too. */
export function testNoMoreCalls() {
  test("no endpoint was called more often than expected", () => app.assertSettled());
}

/** What there is to say of a run when a test fails: its log, but no long texts. */
function summary(run) {
  const length = 300;
  return JSON.stringify(run, (_, value) => (typeof value === "string" ? value.slice(0, length) : value));
}

/** Adds an endpoint with one workflow. */
export function workflow(path, routeFunction, options) {
  return app.route(path, serve(routeFunction, options).handler);
}

/** Adds an endpoint with several workflows that know each other, and returns its routes by their names. */
export function workflows(path, definitions, options) {
  const handler = serveMany(definitions, options);
  const route = (name) => app.route(`${path}/${name}`, (request) => handler({ request }));
  return Object.fromEntries(Object.keys(definitions).map((name) => [name, route(name)]));
}

/** Adds an endpoint that is no workflow. Its function takes a Request and how often it was called before. */
export function destination(path, answer) {
  let count = 0;
  return app.route(path, (request) => answer(request, count++));
}

/** Starts a run of a route that, unless the settings say so, is not retried, and returns its id. */
export async function start(route, settings) {
  const { workflowRunId } = await client.trigger({ url: route.url, retries: 0, ...settings });
  return workflowRunId;
}

/** The log of the latest run with an id, or undefined. */
export async function logOf(workflowRunId) {
  const { runs } = await client.logs({ workflowRunId });
  return runs[0];
}

/**
 * Waits until a run is in a state, which must be the one it ends in, and returns its
 * log. What else tells of the end is there from the moment of the event of it.
 */
export async function ended(workflowRunId, state) {
  let run;
  const look = async () => {
    const { events } = await client.client.http.request({ path: ["v2", "workflows", "events"], query: { workflowRunId, state: ENDS } });
    if (events.length === 0) return undefined;
    run = await logOf(workflowRunId);
    return run.workflowState === "RUN_STARTED" ? undefined : run; // the events are of an earlier one with this id
  };
  await eventually(look, async () => `the end of ${workflowRunId}: ${summary(await logOf(workflowRunId))}`);
  assert.equal(run.workflowState, state, summary(run));
  return run;
}

/** Waits until a run has succeeded and returns its result. */
export async function resultOf(workflowRunId) {
  const { workflowRunResponse } = await ended(workflowRunId, "RUN_SUCCESS");
  return workflowRunResponse === undefined ? undefined : JSON.parse(workflowRunResponse);
}

/** Starts a run and waits for its result. */
export async function resultFrom(route, settings) {
  return resultOf(await start(route, settings));
}

/** Whether an error is an answer of the server with this status. */
export function answered(status) {
  return (error) => error.status === status;
}

/** Something that can be waited for and that a test makes happen. */
export function gate() {
  let open;
  const passed = new Promise((resolve) => (open = resolve));
  return { open, passed };
}
