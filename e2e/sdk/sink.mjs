// A destination for deliveries: an HTTP server on the loopback interface that
// remembers each request and answers the way the request's path asks for.
import { createServer } from "node:http";
import { once } from "node:events";
import { KEEP, PATIENCE } from "./limits.mjs";

/**
 * What the first segment of a path makes the sink answer, given how often the
 * message was retried before.
 */
const answers = {
  ok: () => ({ status: 200, body: "taken" }),
  flaky: (retried) => (retried < 2 ? { status: 503, body: "busy" } : { status: 200, body: "taken" }),
  broken: () => ({ status: 500, body: "broken" }),
};

export class Sink {
  #server = createServer(KEEP, (request, response) => this.#take(request, response));
  #deliveries = [];
  #waiting = new Set();

  /** Starts to listen on a free port and returns the sink. */
  static async open() {
    const sink = new Sink();
    sink.#server.listen(0, "127.0.0.1");
    await once(sink.#server, "listening");
    return sink;
  }

  /** The host of the sink's URLs, with its port. */
  get host() {
    return `127.0.0.1:${this.#server.address().port}`;
  }

  /** The URL of a path of the sink. */
  url(path) {
    return `http://${this.host}${path}`;
  }

  /** The deliveries of a message so far, in the order of their arrival. */
  of(messageId) {
    return this.#deliveries.filter((delivery) => delivery.headers["upstash-message-id"] === messageId);
  }

  /** Returns the deliveries of a message as soon as there are `count` of them. */
  async delivered(messageId, count = 1) {
    const deadline = Date.now() + PATIENCE;
    while (this.of(messageId).length < count) {
      if (Date.now() > deadline) {
        throw new Error(`${messageId} arrived ${this.of(messageId).length} times, not ${count} times`);
      }
      await this.#next(deadline - Date.now());
    }
    return this.of(messageId);
  }

  close() {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #take(request, response) {
    const chunks = await request.toArray();
    const { method, url: path, headers } = request;
    this.#deliveries.push({ method, path, headers, body: Buffer.concat(chunks).toString(), at: Date.now() });
    const kind = path.split(/[/?]/)[1];
    const { status, body } = answers[kind](Number(headers["upstash-retried"]));
    response.writeHead(status, { "Content-Type": "text/plain", "X-Sink": kind }).end(body);
    for (const wake of this.#waiting) wake();
  }

  /** Waits for a delivery, or until the time is over. */
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
}
