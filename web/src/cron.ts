// Cron expressions in words. When they tick is asked of the server, whose rules they are;
// words of an expression that it does not accept are never shown.
//
// A field is described by its values, not by how it is written: what is said of a step
// then cannot differ from what it does.

const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const weekdays = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const shortcuts: Record<string, string> = {
  "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
};

// Field is what one field of an expression may have.
interface Field {
  unit: string;
  first: number;
  last: number;
  names?: string[]; // of the values from first on
}

const minutes: Field = { unit: "minute", first: 0, last: 59 };
const hours: Field = { unit: "hour", first: 0, last: 23 };
const days: Field = { unit: "day", first: 1, last: 31 };
const monthsOfYear: Field = { unit: "month", first: 1, last: 12, names: months };
const daysOfWeek: Field = { unit: "weekday", first: 0, last: 6, names: ["Sunday", ...weekdays] };

// inWords describes an expression, without its time zone.
export function inWords(expression: string): string {
  let words = expression.trim().split(/\s+/).filter((word) => !/^(CRON_)?TZ=/.test(word));
  if (words[0]?.toLowerCase() === "@every") {
    return `every ${words[1]}, counted from a Monday at midnight UTC`;
  }
  words = (shortcuts[words[0]?.toLowerCase() ?? ""] ?? words.join(" ")).split(" ");
  const [minute, hour, day, month, weekday] = words;
  if (weekday === undefined) {
    return "";
  }
  const inMonths = valuesOf(month!, monthsOfYear);
  const often = stepOf(valuesOf(minute!, minutes), minutes) !== null && valuesOf(hour!, hours).length === 24;
  const onDays = dayWords(day!, weekday);
  return [clockWords(valuesOf(minute!, minutes), valuesOf(hour!, hours)), often && onDays === "every day" ? "" : onDays,
    inMonths.length === 12 ? "" : "in " + listed(inMonths, (value) => months[value - 1]!)].filter(Boolean).join(" ");
}

// valuesOf returns the values of a field, ascending.
function valuesOf(text: string, field: Field): number[] {
  const values = new Set<number>();
  for (const item of text.split(",")) {
    const [span, step] = item.split("/");
    const [low, high] = isWildcard(span!) ? [field.first, field.last] : span!.split("-").map((one) => valueOf(one, field));
    const sundayEnds = field === daysOfWeek && high === 0 && low! > 0; // as in FRI-SUN
    const end = sundayEnds ? 7 : high ?? (step === undefined ? low! : Math.max(low!, field.last));
    for (let value = low!; value <= end; value += Math.max(1, Number(step ?? 1))) {
      values.add(value);
    }
  }
  return [...values].sort((a, b) => a - b);
}

function isWildcard(span: string): boolean {
  return span === "*" || span === "?";
}

function valueOf(text: string, field: Field): number {
  const named = field.names?.findIndex((name) => name.slice(0, 3).toLowerCase() === text.toLowerCase()) ?? -1;
  return named < 0 ? Number(text) : field.first + named;
}

function clockWords(minute: number[], hour: number[]): string {
  const all = hour.length === 24;
  if (minute.length * hour.length <= 6 && !all) {
    return "at " + joined(hour.flatMap((h) => minute.map((m) => twoDigits(h) + ":" + twoDigits(m))));
  }
  const inHours = all ? "" : ", " + (stepOf(hour, hours) ?? "in the hours " + listed(hour, (h) => twoDigits(h) + ":00"));
  const step = stepOf(minute, minutes);
  if (step !== null) {
    return step + inHours;
  }
  if (minute.length === 1 && minute[0] === 0) {
    return all ? "every hour, on the hour" : "on the hour" + inHours;
  }
  return "at minute " + listed(minute, String) + (all ? " of every hour" : inHours);
}

function dayWords(day: string, weekday: string): string {
  const dates = valuesOf(day, days);
  const inMonth = dates.length === 31 ? "every day" : "on day " + listed(dates, String) + " of the month";
  const inWeek = "on " + listed([...new Set(valuesOf(weekday, daysOfWeek).map((value) => value || 7))].sort(), (value) => weekdays[value - 1]!);
  if (isAny(day)) {
    return isAny(weekday) ? inMonth : inWeek;
  }
  return isAny(weekday) || dates.length === 31 ? inMonth : `${inMonth}, and also ${inWeek}`;
}

// isAny reports whether a field of days leaves it to the other one which days there are.
function isAny(field: string): boolean {
  return field.split(",").some((item) => /^[*?](\/0*1)?$/.test(item));
}

// stepOf describes values that are the same distance apart, also from one hour or day to the
// next; it is null for others.
function stepOf(values: number[], field: Field): string | null {
  const size = field.last - field.first + 1;
  const step = size / values.length;
  if (values.length < 2 || values.some((value, i) => value !== field.first + i * step)) {
    return null;
  }
  return step === 1 ? `every ${field.unit}` : `every ${step} ${field.unit}s`;
}

// listed describes values one by one, and three or more in a row by their ends.
function listed(values: number[], name: (value: number) => string): string {
  const runs: number[][] = [];
  for (const value of values) {
    const run = runs.at(-1);
    if (run !== undefined && run.at(-1) === value - 1) {
      run.push(value);
    } else {
      runs.push([value]);
    }
  }
  return joined(runs.flatMap((run) => (run.length < 3 ? run.map(name) : [`${name(run[0]!)} to ${name(run.at(-1)!)}`])));
}

function joined(items: string[]): string {
  return items.length < 2 ? items.join("") : items.slice(0, -1).join(", ") + " and " + items[items.length - 1];
}

function twoDigits(n: number): string {
  return String(n).padStart(2, "0");
}

// zoneOf returns the time zone of an expression.
export function zoneOf(expression: string): string {
  return /(?:^|\s)(?:CRON_)?TZ=(\S+)/.exec(expression)?.[1] ?? "UTC";
}
