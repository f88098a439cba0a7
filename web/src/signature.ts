// Checks of a delivery's signature, the way receivers make them. Keys and bodies stay in
// this page: the browser computes.

export interface Check {
  name: string;
  good: boolean | null; // null: cannot be checked
  says: string;
}

export interface Delivery {
  token: string;
  url: string; // "" is not compared, nor is the scheme of //HOST/PATH
  body: string;
  keys: string[]; // the current one and the next one
}

interface Claims {
  iss?: string;
  sub?: string;
  exp?: number;
  nbf?: number;
  iat?: number;
  body?: string;
}

const issuer = "Upstash";

// verify makes each check; the first that fails is why a receiver refuses.
export async function verify(delivery: Delivery, now = Date.now()): Promise<Check[]> {
  const parts = delivery.token.trim().split(".");
  const header = decode<{ alg?: string }>(parts[0]);
  const claims = decode<Claims>(parts[1]);
  if (parts.length !== 3 || header === null || claims === null) {
    return [{ name: "form", good: false, says: "This is not a JWT: three base64url parts separated by dots are expected." }];
  }
  const seconds = now / 1000;
  return [
    { name: "alg", good: header.alg === "HS256", says: `${header.alg}; HS256 is expected.` },
    await checkKey(parts, delivery.keys),
    { name: "iss", good: claims.iss === issuer, says: `${claims.iss ?? "missing"}; ${issuer} is expected.` },
    checkTime("exp", claims.exp, (at) => seconds <= at, "It has expired", true),
    checkTime("nbf", claims.nbf, (at) => seconds >= at, "It is not valid yet", false),
    checkTime("iat", claims.iat, (at) => seconds >= at, "It was issued in the future", false),
    checkURL(claims.sub, delivery.url.trim()),
    await checkBody(claims.body, delivery.body),
  ];
}

async function checkKey(parts: string[], keys: string[]): Promise<Check> {
  const name = "signature";
  const given = keys.map((key) => key.trim()).filter((key) => key !== "");
  const signature = bytesOf(parts[2]!);
  if (given.length === 0 || signature === null) {
    return { name, good: given.length === 0 ? null : false, says: given.length === 0 ? "Give a signing key to check it." : "It is not base64url." };
  }
  const text = new TextEncoder().encode(parts[0] + "." + parts[1]);
  for (const [i, key] of given.entries()) {
    const usable = await crypto.subtle.importKey("raw", new TextEncoder().encode(key), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    if (await crypto.subtle.verify("HMAC", usable, signature, text)) {
      return { name, good: true, says: `Signed with the ${i === 0 ? "first" : "second"} key.` };
    }
  }
  return { name, good: false, says: "Signed with neither key: the receiver's keys differ from the server's, or the token was altered." };
}

function checkTime(name: string, at: number | undefined, fits: (at: number) => boolean, otherwise: string, required: boolean): Check {
  if (at === undefined) {
    return { name, good: !required, says: required ? "It is missing." : "It is not given." };
  }
  const time = at === 0 ? "not limited" : new Date(at * 1000).toLocaleString();
  return fits(at) ? { name, good: true, says: time + "." } : { name, good: false, says: `${otherwise}: ${time}.` };
}

function checkURL(sub: string | undefined, url: string): Check {
  if (url === "") {
    return { name: "sub", good: null, says: `${sub ?? "missing"}; give a URL to compare it with.` };
  }
  if (url.startsWith("//") && sub?.replace(/^https?:/, "") === url) {
    return { name: "sub", good: null, says: `${sub}; the request does not show whether the scheme is http or https.` };
  }
  return { name: "sub", good: sub === url, says: sub === url ? sub : `${sub ?? "missing"}, but the URL is ${url}. They must match byte for byte, including scheme, port and query.` };
}

async function checkBody(claimed: string | undefined, body: string): Promise<Check> {
  const sum = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(body));
  const hash = btoa(String.fromCharCode(...new Uint8Array(sum))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  const same = (claimed ?? "").replace(/=+$/, "") === hash;
  return { name: "body", good: same, says: same ? "It matches the hash of the body." : `It is ${claimed ?? "missing"}, but the hash of this body is ${hash}. Usually the body was parsed and serialized again: verify the raw bytes as received.` };
}

function decode<T>(part: string | undefined): T | null {
  const data = bytesOf(part ?? "");
  try {
    return data === null ? null : (JSON.parse(new TextDecoder().decode(data)) as T);
  } catch {
    return null;
  }
}

function bytesOf(base64url: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(base64url.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

// readRequest takes a request apart as it was captured: its first line, its headers, an
// empty line, its body. Its URL begins with // if no proxy sends its scheme. It is null if
// the text is none.
export function readRequest(text: string): { token: string; url: string; body: string } | null {
  const [head, ...rest] = text.split(/\r?\n\r?\n/);
  const lines = head!.split(/\r?\n/);
  const first = /^(?:GET|POST|PUT|PATCH|DELETE) (\S+)/.exec(lines[0]!);
  const headers = new Map(lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
  }));
  const token = headers.get("upstash-signature") ?? headers.get("service-signature");
  if (token === undefined) {
    return null;
  }
  const target = first?.[1] ?? "";
  const proto = headers.get("x-forwarded-proto");
  const host = headers.get("x-forwarded-host") ?? headers.get("host");
  const url = target.startsWith("/") && host !== undefined ? `${proto === undefined ? "" : proto + ":"}//${host}${target}` : target;
  return { token, url, body: rest.join("\n\n") };
}
