// An app with a workflow that fails until it is mended, for the tests of the console:
// it prints its URL and serves until its input ends.
//   POST /orders   the workflow
//   POST /mend     from now on the card is charged
import { serve } from "@upstash/workflow";

import { App } from "./workflow/app.mjs";

let mended = false;
const app = await App.open();
const { handler } = serve(
  async (context) => {
    const order = await context.run("read the order", () => ({ ...context.requestPayload, total: 42 }));
    await Promise.all([
      context.run("reserve the goods", () => order.id),
      context.run("charge the card", () => {
        if (!mended) throw new Error("the card service is down");
        return { charged: order.total };
      }),
    ]);
    const { eventData } = await context.waitForEvent("wait for the parcel", "parcel-" + order.id, { timeout: "1h" });
    return { parcel: eventData };
  },
  { baseUrl: app.url(""), retries: 0, verbose: false },
);
app.route("/orders", handler);
app.route("/mend", () => {
  mended = true;
  return new Response("mended");
});
console.log(app.url(""));
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
