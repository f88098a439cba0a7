// How an app publishes a message and checks one that it receives, in the languages of the SDKs.
// Addresses and secrets come from the environment, which the names of Environment are set in.

export interface Snippet {
  name: string;
  install: string; // "" if nothing is to be installed
  publish: string;
  receive: string; // "" if it cannot be shown
}

export const snippets: Snippet[] = [
  {
    name: "curl",
    install: "",
    publish: `curl -X POST "$QSTASH_URL/v2/publish/http://localhost:3000/orders" \\
  -H "Authorization: Bearer $QSTASH_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d '{"order":1}'`,
    receive: "",
  },
  {
    name: "TypeScript",
    install: "npm install @upstash/qstash",
    publish: `import { Client } from "@upstash/qstash";

const client = new Client(); // reads QSTASH_URL and QSTASH_TOKEN
await client.publishJSON({ url: "http://localhost:3000/orders", body: { order: 1 } });`,
    receive: `import { Receiver } from "@upstash/qstash";

const receiver = new Receiver(); // reads both signing keys
await receiver.verify({ // throws unless the request is ours
  signature: request.headers.get("Upstash-Signature")!,
  body: await request.text(),
});`,
  },
  {
    name: "Next.js",
    install: "npm install @upstash/qstash",
    publish: `// app/actions.ts
"use server";
import { Client } from "@upstash/qstash";

export async function placeOrder(order: number) {
  await new Client().publishJSON({ url: "http://localhost:3000/api/orders", body: { order } });
}`,
    receive: `// app/api/orders/route.ts
import { verifySignatureAppRouter } from "@upstash/qstash/nextjs";

export const POST = verifySignatureAppRouter(async (request: Request) => {
  const { order } = await request.json();
  return Response.json({ received: order });
});`,
  },
  {
    name: "Python",
    install: "pip install qstash",
    publish: `import os
from qstash import QStash

client = QStash(os.environ["QSTASH_TOKEN"], base_url=os.environ["QSTASH_URL"])
client.message.publish_json(url="http://localhost:3000/orders", body={"order": 1})`,
    receive: `import os
from qstash import Receiver

receiver = Receiver(
    current_signing_key=os.environ["QSTASH_CURRENT_SIGNING_KEY"],
    next_signing_key=os.environ["QSTASH_NEXT_SIGNING_KEY"],
)
receiver.verify(  # raises unless the request is ours
    signature=request.headers["Upstash-Signature"],
    body=request.get_data(as_text=True),
)`,
  },
  {
    name: "Go",
    install: "go get github.com/upstash/qstash-go",
    publish: `client := qstash.NewClientWithEnv() // reads QSTASH_URL and QSTASH_TOKEN
_, err := client.PublishJSON(qstash.PublishJSONOptions{
	Url:  "http://localhost:3000/orders",
	Body: map[string]any{"order": 1},
})`,
    receive: `receiver := qstash.NewReceiverWithEnv() // reads both signing keys
err := receiver.Verify(qstash.VerifyOptions{
	Signature: r.Header.Get("Upstash-Signature"),
	Body:      string(body),
})`,
  },
];

export interface Secrets {
  url: string;
  token: string;
  current: string | undefined; // signing keys, which a read-only token does not see
  next: string | undefined;
}

// environment returns the variables that SDKs read.
export function environment({ url, token, current, next }: Secrets): [string, string][] {
  const all: [string, string | undefined][] = [
    ["QSTASH_URL", url], ["QSTASH_TOKEN", token], ["QSTASH_CURRENT_SIGNING_KEY", current], ["QSTASH_NEXT_SIGNING_KEY", next],
  ];
  return all.filter((one): one is [string, string] => one[1] !== undefined);
}
