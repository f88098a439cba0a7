// What an answer says to people about what went wrong, in whatever form it says it.

const longest = 300; // characters

// members are those of a JSON object that say it, the most telling first: "message" of many
// frameworks, "detail" and "title" of RFC 9457, "detail" and "msg" of FastAPI,
// "error_description" of OAuth, "errorMessage" of Lambda, "errors" of GraphQL and JSON:API.
const members = ["message", "detail", "error_description", "errormessage", "error", "errors", "msg", "reason", "description", "title"];

// messageOf returns what an answer says, which may be cut off: the message in JSON or in
// markup, or else a line of text; "" if it says nothing.
export function messageOf(body: string): string {
  const text = body.trim();
  const said = /^[[{"]/.test(text) ? inJSON(text) : text.startsWith("<") ? inMarkup(text) : inText(text);
  return said.trim().slice(0, longest);
}

function inJSON(text: string): string {
  try {
    return inValue(JSON.parse(text), 0);
  } catch {
    return inCutJSON(text);
  }
}

const deepest = 4; // levels

function inValue(value: unknown, depth: number): string {
  if (typeof value === "string") {
    return value.trim();
  }
  if (typeof value !== "object" || value === null || depth > deepest) {
    return "";
  }
  if (Array.isArray(value)) {
    return join(value.map((one) => (depth === 0 && typeof one === "string" ? "" : inValue(one, depth + 1))));
  }
  const own = new Map(Object.entries(value).map(([name, one]) => [name.toLowerCase(), one as unknown]));
  for (const name of members) {
    const said = inValue(own.get(name), depth + 1) || (name === "errors" ? inFields(own.get(name), depth + 1) : "");
    if (said !== "") {
      const where = own.get("loc"); // of FastAPI: ["body", "id"]
      return Array.isArray(where) ? `${where.join(".")}: ${said}` : said;
    }
  }
  return "";
}

// inFields reads messages that are given by the fields of a form.
function inFields(value: unknown, depth: number): string {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return "";
  }
  return join(Object.entries(value).map(([field, one]) => {
    const said = inValue(one, depth);
    return said && `${field}: ${said}`;
  }));
}

function join(said: string[]): string {
  return said.filter((one) => one !== "").slice(0, 3).join("; ");
}

// inCutJSON looks for the same members where the end is missing.
function inCutJSON(text: string): string {
  for (const name of members) {
    const found = new RegExp(`"${name}"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)`, "i").exec(text);
    if (found !== null && found[1] !== "") {
      return unquote(found[1]!);
    }
  }
  return "";
}

function unquote(text: string): string {
  try {
    return String(JSON.parse(`"${text.replace(/\\(u[\da-f]{0,3})?$/i, "")}"`));
  } catch {
    return text;
  }
}

// inMarkup reads pages of errors, whose <pre> has what was thrown, and errors in XML.
function inMarkup(text: string): string {
  for (const name of ["message", "faultstring", "pre", "title", "h1"]) {
    const found = new RegExp(`<${name}(?:\\s[^>]*)?>([^<]*)`, "i").exec(text);
    const said = found === null ? "" : decode(found[1]!).replace(/\s+/g, " ").trim();
    if (said !== "") {
      return said;
    }
  }
  return "";
}

const entities: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };

function decode(text: string): string {
  return text.replace(/&(?:#(\d{1,6})|#x([\da-f]{1,5})|(\w+));/gi, (whole, decimal, hex, name) => {
    const code = decimal !== undefined ? Number(decimal) : parseInt(hex, 16);
    return Number.isNaN(code) ? (entities[name] ?? whole) : String.fromCodePoint(code);
  });
}

// inText returns the first line; of a traceback of Python the last one that is not indented.
function inText(text: string): string {
  const lines = text.split("\n").filter((line) => /^\S/.test(line));
  return (lines[0]?.startsWith("Traceback (most recent call last)") ? lines.at(-1) : lines[0]) ?? "";
}
