// Cron expressions in words. When they tick is asked of the server, whose rules they are;
// words of an expression that it does not accept are never shown.

const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const weekdays = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const shortcuts: Record<string, string> = {
  "@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
  "@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
};

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
  return [clockWords(minute!, hour!), dayWords(day!, weekday), isAny(month!) ? "" : "in " + list(month!, "month", monthName)]
    .filter(Boolean).join(" ");
}

function isAny(field: string): boolean {
  return field.split(",").some((item) => /^[*?](\/1)?$/.test(item));
}

function clockWords(minute: string, hour: string): string {
  if (/^\d+$/.test(minute) && /^\d+(,\d+)*$/.test(hour)) {
    return "at " + joined(hour.split(",").map((h) => h.padStart(2, "0") + ":" + minute.padStart(2, "0")));
  }
  const minutes = isAny(minute) ? "every minute" : minute === "0" ? "on the hour" : stepOf(minute, "minute") ?? "at minute " + list(minute, "minute");
  if (isAny(hour)) {
    return isAny(minute) || stepOf(minute, "minute") !== null ? minutes : minutes === "on the hour" ? "every hour, on the hour" : minutes + " of every hour";
  }
  return minutes + ", " + (stepOf(hour, "hour") ?? "in the hours " + list(hour, "hour", (h) => h.padStart(2, "0") + ":00"));
}

function dayWords(day: string, weekday: string): string {
  const days = stepOf(day, "day") ?? "on day " + list(day, "day") + " of the month";
  const week = "on " + list(weekday, "weekday", weekdayName);
  if (isAny(day)) {
    return isAny(weekday) ? "every day" : week;
  }
  return isAny(weekday) ? days : `${days}, and also ${week}`;
}

// stepOf describes a field that is one step over all values.
function stepOf(field: string, unit: string): string | null {
  const found = /^[*?]\/(\d+)$/.exec(field);
  if (found === null) {
    return null;
  }
  return found[1] === "1" ? `every ${unit}` : `every ${found[1]} ${unit}s, counted from the first`;
}

function list(field: string, unit: string, name = (value: string) => value): string {
  return joined(field.split(",").map((item) => {
    const [span, step] = item.split("/");
    const [low, high] = span!.split("-");
    const range = isAny(span!) ? `every ${unit}` : high === undefined ? name(low!) + (step === undefined ? "" : " on") : `${name(low!)} to ${name(high)}`;
    return step === undefined ? range : `every ${step} from ${range}`;
  }));
}

function joined(items: string[]): string {
  return items.length < 2 ? items.join("") : items.slice(0, -1).join(", ") + " and " + items[items.length - 1];
}

function monthName(value: string): string {
  return byNumberOrName(value, months, 1);
}

function weekdayName(value: string): string {
  return byNumberOrName(value === "7" ? "0" : value, weekdays, 0);
}

function byNumberOrName(value: string, names: string[], first: number): string {
  return names[Number(value) - first] ?? names.find((name) => name.slice(0, 3).toLowerCase() === value.toLowerCase()) ?? value;
}

// zoneOf returns the time zone of an expression.
export function zoneOf(expression: string): string {
  return /(?:^|\s)(?:CRON_)?TZ=(\S+)/.exec(expression)?.[1] ?? "UTC";
}
