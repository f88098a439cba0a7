// Numbers, times and bytes as people read them.

const clockFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23",
});
const minuteFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayFormat = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const yearFormat = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const countFormat = new Intl.NumberFormat();

// clock shows a time to the millisecond, with the day unless it is today.
export function clock(ms: number): string {
  return day(ms) + clockFormat.format(ms);
}

const lastTime = Date.UTC(10_000, 0); // ms; later years have five digits, which inputs do not take

// timeIn reads a time, in ms, that somebody may have typed; undefined if it is none.
export function timeIn(text: string): number | undefined {
  const ms = text.trim() === "" ? NaN : Number(text);
  return ms >= 0 && ms < lastTime ? ms : undefined;
}

// moment shows a time to the second, with the day unless it is today.
export function moment(ms: number): string {
  return day(ms) + minuteFormat.format(ms);
}

const hourFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const utcDayFormat = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", timeZone: "UTC" });

// hourOf shows the hour a time is in, with the day unless it is today, or the day in UTC.
export function hourOf(ms: number, wholeDay: boolean): string {
  return wholeDay ? utcDayFormat.format(ms) : day(ms) + hourFormat.format(ms);
}

function day(ms: number): string {
  const at = new Date(ms);
  const now = new Date();
  if (at.toDateString() === now.toDateString()) {
    return "";
  }
  const format = at.getFullYear() === now.getFullYear() ? dayFormat : yearFormat;
  return format.format(at) + ", ";
}

export function iso(ms: number): string {
  return new Date(ms).toISOString();
}

export function count(n: number): string {
  return countFormat.format(n);
}

// plural shows a number of things.
export function plural(n: number, one: string, many = one + "s"): string {
  return count(n) + " " + (n === 1 ? one : many);
}

// span shows a duration in its two largest units.
export function span(ms: number): string {
  if (ms < 1000) {
    return Math.max(0, Math.round(ms)) + " ms";
  }
  if (ms < 60_000) {
    return (ms / 1000).toFixed(ms < 10_000 ? 2 : 1) + " s";
  }
  const units: [number, string][] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];
  const first = units.findIndex(([size]) => ms >= size);
  const [size, name] = units[first]!;
  const rest = units[first + 1];
  const head = Math.floor(ms / size) + " " + name;
  const tail = rest === undefined ? 0 : Math.floor((ms % size) / rest[0]);
  return tail === 0 ? head : head + " " + tail + " " + rest![1];
}

// away shows how far a time is from now: "in 5 min", "2 h ago".
export function away(ms: number, now = Date.now()): string {
  return ms > now ? "in " + span(ms - now) : span(now - ms) + " ago";
}

export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) {
    n /= 1000;
    unit++;
  }
  return (unit === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[unit];
}

// fromBase64 decodes base64; null if it is none.
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  } catch {
    return null;
  }
}

// readable shows bytes as text: JSON indented, other text as it is, the rest as a dump.
export function readable(data: Uint8Array): { text: string; kind: "json" | "text" | "binary" } {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return { text: dump(data), kind: "binary" };
  }
  return readableText(text);
}

export function readableText(text: string): { text: string; kind: "json" | "text" } {
  if (/^\s*[[{]/.test(text) && text.length < 1_000_000) {
    try {
      return { text: JSON.stringify(JSON.parse(text), null, 2), kind: "json" };
    } catch {
      // it only looks like JSON
    }
  }
  return { text, kind: "text" };
}

// unfold shows line breaks and tabs in the strings of indented JSON, stack traces mostly, as
// what they are. It is for reading: the result is no JSON.
export function unfold(json: string): string {
  return json.split("\n").map((line) => {
    const lineBreak = "\n" + " ".repeat(line.search(/\S|$/) + 2);
    return line.replace(/\\(r\\n|.)/g, (escape, what) => (what === "n" || what === "r\\n" ? lineBreak : what === "t" ? "\t" : escape));
  }).join("\n");
}

const dumped = 4096; // bytes of which a dump is shown

function dump(data: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < Math.min(data.length, dumped); at += 16) {
    const row = [...data.slice(at, at + 16)];
    const hex = row.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const text = row.map((b) => (b >= 32 && b < 127 ? String.fromCharCode(b) : "·")).join("");
    lines.push(at.toString(16).padStart(6, "0") + "  " + hex + "  " + text);
  }
  if (data.length > dumped) {
    lines.push(`… ${count(data.length - dumped)} more bytes`);
  }
  return lines.join("\n");
}

// host returns the host of a URL, the text itself if it is none.
export function host(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

// shortURL returns a URL without its scheme.
export function shortURL(url: string): string {
  return url.replace(/^https?:\/\//, "");
}

const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

// createdAt returns the time an id of a message begins with, in Unix milliseconds.
export function createdAt(messageId: string): number {
  let n = 0n;
  for (const c of messageId.slice("msg_".length)) {
    n = n * 58n + BigInt(Math.max(0, base58.indexOf(c)));
  }
  return Number(n >> 80n);
}
