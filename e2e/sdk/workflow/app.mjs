// An app that has workflows: an HTTP server on the loopback interface whose
// routes are handlers of web requests, as the SDK makes them. It remembers every
// call of a route, since how often an endpoint is called is part of the protocol.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { KEEP, PATIENCE } from "../limits.mjs";

export class App {
  #server = createServer(KEEP, (request, response) => this.#take(request, response));
  #routes = new Map();

  /** Starts to listen on a free port and returns the app. */
  static async open() {
    const app = new App();
    app.#server.listen(0, "127.0.0.1");
    await once(app.#server, "listening");
    return app;
  }

  /** The URL of a path of the app. */
  url(path) {
    return `http://127.0.0.1:${this.#server.address().port}${path}`;
  }

  /** Adds a route. Its handler takes a Request and returns a Response. */
  route(path, handler) {
    assert.ok(!this.#routes.has(path), `there is a route ${path} already`);
    const route = new Route(this.url(path), handler);
    this.#routes.set(path, route);
    return route;
  }

  /** Asserts that no route was called after everything that was expected of it. */
  assertSettled() {
    for (const route of this.#routes.values()) route.assertSettled();
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #take(incoming, outgoing) {
    const body = Buffer.concat(await incoming.toArray());
    const route = this.#routes.get(incoming.url.split("?")[0]);
    const answer = route ? await route.answer(incoming, body) : { status: 404 };
    outgoing.writeHead(answer.status, answer.headers).end(answer.body);
  }
}

/** A route of the app and the calls it has had, in the order of their arrival. */
export class Route {
  calls = [];
  /** How many calls were in the handler at the same time, at most. */
  peak = 0;
  /** May replace what a call is answered with. */
  intercept = (call, response) => response;
  #handler;
  #active = 0;
  #expected;
  #waiting = new Set();

  constructor(url, handler) {
    this.url = url;
    this.#handler = handler;
  }

  /** Handles a call and returns what to answer. */
  async answer(incoming, body) {
    const call = { method: incoming.method, headers: incoming.headers, body: body.toString(), at: Date.now() };
    this.calls.push(call);
    this.peak = Math.max(this.peak, ++this.#active);
    this.#wake();
    const response = this.intercept(call, await this.#handler(this.#request(incoming, body)));
    call.answer = Buffer.from(await response.arrayBuffer());
    call.status = response.status;
    this.#active--;
    this.#wake();
    return { status: response.status, headers: Object.fromEntries(response.headers), body: call.answer };
  }

  /** The calls of one run. */
  of(workflowRunId) {
    return this.calls.filter(({ headers }) => headers["upstash-workflow-runid"] === workflowRunId);
  }

  /** Returns as soon as the route was called this often. */
  async reached(count) {
    await this.#until(() => this.calls.length >= count, `${count} calls`);
  }

  /**
   * Returns the calls as soon as this many were answered. More must not come:
   * assertSettled looks for them when everything is over.
   */
  async called(count) {
    this.#expected = count;
    await this.#until(() => this.calls.filter(({ status }) => status !== undefined).length >= count, `${count} answers`);
    this.assertSettled();
    return this.calls;
  }

  assertSettled() {
    if (this.#expected === undefined) return;
    assert.equal(this.calls.length, this.#expected, `${this.url} was called ${this.calls.length} times: ${this.#story()}`);
  }

  #request(incoming, body) {
    const headers = new Headers();
    for (const [name, values] of Object.entries(incoming.headersDistinct)) {
      for (const value of values) headers.append(name, value);
    }
    const content = ["GET", "HEAD"].includes(incoming.method) ? undefined : body;
    return new Request(new URL(incoming.url, this.url), { method: incoming.method, headers, body: content });
  }

  async #until(met, what) {
    const deadline = Date.now() + PATIENCE;
    while (!met()) {
      assert.ok(Date.now() < deadline, `${this.url} waited in vain for ${what}: ${this.#story()}`);
      await this.#next(deadline - Date.now());
    }
  }

  /** The calls as one text. */
  #story() {
    return this.calls.map(({ headers, status, answer }) =>
      [headers["upstash-workflow-calltype"] ?? "plain", headers["upstash-message-id"], status, answer?.subarray(0, 200)].join(" "),
    ).join("; ");
  }

  /** Waits for the next call or answer, or until the time is over. */
  #next(milliseconds) {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, milliseconds);
      this.#waiting.add(wake);
    });
  }

  #wake() {
    for (const wake of this.#waiting) wake();
  }
}
