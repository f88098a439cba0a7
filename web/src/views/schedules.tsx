// Schedules: when each ticks, in words and as times, and what became of the last tick.

import { useEffect, useState } from "preact/hooks";

import { call, explain, get } from "../api";
import { inWords, zoneOf } from "../cron";
import { useAsked } from "../feed";
import { away, fromBase64, moment, shortURL } from "../format";
import { flowValue, inPath, mark } from "../publication";
import { href, setParams } from "../router";
import { identity } from "../session";
import type { Schedule } from "../types";
import { Act, Form, type Change } from "../ui/act";
import { Delete, Resources } from "../ui/resource";
import { Dialog, Facts, Fault, Field, HeaderList, Body, Tag, Time } from "../ui/widgets";

interface Ticks {
  cron: string;
  zone: string;
  ticks: number[];
}

export function Schedules() {
  return (
    <Resources<Schedule> title="Schedules" path="/v2/schedules" one="schedule" nameOf={(schedule) => schedule.scheduleId + " " + schedule.destination}
      about="A schedule publishes a message each time its cron expression matches."
      columns={["Schedule", "State", "When", "Destination", "Next", "Last"]}
      form={(done) => <ScheduleForm done={done} />}
      row={(schedule, change) => [
        <a href={href("/messages", { scheduleId: schedule.scheduleId })}>{schedule.scheduleId}</a>,
        schedule.isPaused ? <Tag tone="amber">PAUSED</Tag> : <Tag tone="green">ACTIVE</Tag>,
        <><code>{schedule.cron}</code><br /><small>{inWords(schedule.cron)}</small></>,
        shortURL(schedule.destination),
        schedule.nextScheduleTime === undefined ? "–" : <span title={moment(schedule.nextScheduleTime)}>{away(schedule.nextScheduleTime)}</span>,
        <Last of={schedule} />,
        <Buttons schedule={schedule} change={change} />,
      ]} />
  );
}

const tickTones = { IN_PROGRESS: "blue", SUCCESS: "green", FAIL: "red" };

function Last({ of }: { of: Schedule }) {
  if (of.error !== undefined) {
    return <span class="error-text">{of.error}</span>;
  }
  if (of.lastScheduleTime === undefined) {
    return "–";
  }
  return (
    <>
      {away(of.lastScheduleTime)}{" "}
      {Object.entries(of.lastScheduleStates ?? {}).map(([id, state]) => (
        <button key={id} class="link" aria-label={`Message ${id}: ${state}`} onClick={() => setParams({ open: id })}><Tag tone={tickTones[state]}>{state.replace("_", " ")}</Tag></button>
      ))}
    </>
  );
}

function Buttons({ schedule, change }: { schedule: Schedule; change: Change }) {
  const [open, setOpen] = useState<"" | "details" | "edit">("");
  const path = "/v2/schedules/" + encodeURIComponent(schedule.scheduleId);
  const close = () => {
    setOpen("");
    void change(async () => {});
  };
  return (
    <>
      <button onClick={() => setOpen("details")}>Details</button>
      {schedule.isPaused
        ? <Act change={change} deed={() => call("POST", path + "/resume")}>Resume</Act>
        : <Act change={change} deed={() => call("POST", path + "/pause")}>Pause</Act>}
      <button disabled={identity().readOnly || !isWhole(schedule)} title={isWhole(schedule) ? "" : "This schedule cannot be edited here: redacted parts, callback headers or repeated headers would be lost"}
        onClick={() => setOpen("edit")}>Edit</button>
      <Delete name={schedule.scheduleId} change={change} means="Messages that it has already published are still delivered." deed={() => call("DELETE", path)} />
      {open === "details" && <Details schedule={schedule} onClose={close} />}
      {open === "edit" && <ScheduleForm schedule={schedule} done={close} />}
    </>
  );
}

function Details({ schedule, onClose }: { schedule: Schedule; onClose: () => void }) {
  return (
    <Dialog title={"Schedule " + schedule.scheduleId} onClose={onClose} wide>
      <div class="stack">
        <When cron={schedule.cron} />
        <Facts of={[
          ["Sends", `${schedule.method} ${schedule.destination}`],
          ["Retries", String(schedule.retries)],
          ["Delay", schedule.delay && schedule.delay + " s"],
          ["Queue", schedule.queueName],
          ["Labels", schedule.labels?.join(", ")],
          ["Flow control", schedule.flowControlKey],
          ["Callback", schedule.callback],
          ["Failure callback", schedule.failureCallback],
          ["Made", <Time at={schedule.createdAt} />],
        ]} />
        <HeaderList headers={schedule.header} />
        <Body text={schedule.body} base64={schedule.bodyBase64} label="Body of the schedule" />
      </div>
    </Dialog>
  );
}

// When shows an expression in words, and the times that the server says it ticks next.
function When({ cron }: { cron: string }) {
  const [asked, setAsked] = useState(cron);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(cron), 250);
    return () => clearTimeout(timer);
  }, [cron]);
  const { data, error } = useAsked(asked, async (signal): Promise<Ticks | string> => {
    try {
      return await get<Ticks>("/v2/ticks", { cron: asked }, signal);
    } catch (failure) {
      return explain(failure);
    }
  });
  if (typeof data === "string" || error !== "") {
    return <Fault>{error || String(data)}</Fault>;
  }
  if (data === undefined) {
    return null;
  }
  const format = new Intl.DateTimeFormat(undefined, {
    timeZone: data.zone, weekday: "short", year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
  });
  return (
    <div class="why">
      <h3>Runs {inWords(data.cron)} <small>({data.zone})</small></h3>
      <ol aria-label="Next times">{data.ticks.map((at) => <li key={at}>{format.format(at)} <span class="muted">{away(at)}</span></li>)}</ol>
    </div>
  );
}

function ScheduleForm({ schedule, done }: { schedule?: Schedule; done: () => void }) {
  const [cron, setCron] = useState(schedule?.cron ?? "0 9 * * MON-FRI");
  const [destination, setDestination] = useState(schedule?.destination ?? "");
  const [id, setId] = useState("");
  const [body, setBody] = useState(schedule?.body ?? "");
  const save = () => call("POST", "/v2/schedules/" + inPath(destination.trim()), {
    headers: settingsOf(schedule, cron, id),
    body: bodyOf(schedule, body),
  });
  return (
    <Form title={schedule === undefined ? "New schedule" : "Schedule " + schedule.scheduleId} submit="Save" save={save} done={done}>
      <Field label="Cron expression" hint={`Minute, hour, day, month, weekday. To set a time zone, prefix it with CRON_TZ=Europe/Paris. Current zone: ${zoneOf(cron)}.`}>
        <input required spellcheck={false} value={cron} onInput={(event) => setCron(event.currentTarget.value)} />
      </Field>
      <When cron={cron} />
      <Field label="Destination" hint="A URL, or the name of a URL group."><input required value={destination} onInput={(event) => setDestination(event.currentTarget.value)} /></Field>
      {schedule === undefined && <Field label="Id" hint="Optional. An existing schedule with this id is replaced."><input value={id} onInput={(event) => setId(event.currentTarget.value)} /></Field>}
      {schedule?.bodyBase64 === undefined && <Field label="Body"><textarea rows={4} value={body} onInput={(event) => setBody(event.currentTarget.value)} /></Field>}
    </Form>
  );
}

// isWhole reports whether all that a schedule was made with can be read, and sent by a
// browser, so that it can be created again.
function isWhole(schedule: Schedule): boolean {
  const headers = Object.values(schedule.header ?? {});
  const shown = [schedule.body ?? "", ...headers.flat()];
  return schedule.callbackHeader === undefined && schedule.failureCallbackHeader === undefined
    && headers.every((values) => values.length === 1) && !shown.some((text) => text.startsWith(mark));
}

// bodyOf returns the body to send. That of a schedule which is there is sent as bytes: with
// text, a browser adds a content type.
function bodyOf(schedule: Schedule | undefined, body: string): string | Uint8Array<ArrayBuffer> {
  if (schedule === undefined) {
    return body;
  }
  return schedule.bodyBase64 === undefined ? new TextEncoder().encode(body) : fromBase64(schedule.bodyBase64)!;
}

// settingsOf returns the headers that create a schedule, or create it again with all its settings.
function settingsOf(schedule: Schedule | undefined, cron: string, id: string): Record<string, string> {
  const headers: Record<string, string> = { "Upstash-Cron": cron };
  const set = (name: string, value: string | number | undefined) => {
    if (value !== undefined && value !== "") {
      headers[name] = String(value);
    }
  };
  set("Upstash-Schedule-Id", schedule?.scheduleId ?? id);
  if (schedule !== undefined) {
    set("Upstash-Method", schedule.method);
    set("Upstash-Retries", schedule.retries);
    set("Upstash-Delay", schedule.delay && schedule.delay + "s");
    set("Upstash-Timeout", schedule.timeout && schedule.timeout / 1000 + "s");
    set("Upstash-Queue-Name", schedule.queueName);
    set("Upstash-Retry-Delay", schedule.retryDelayExpression);
    set("Upstash-Flow-Control-Key", schedule.flowControlKey);
    set("Upstash-Flow-Control-Value", flowValue(schedule));
    set("Upstash-Label", schedule.labels?.join(","));
    set("Upstash-Callback", schedule.callback);
    set("Upstash-Failure-Callback", schedule.failureCallback);
    for (const [name, values] of Object.entries(schedule.header ?? {})) {
      headers[name === "Content-Type" ? name : "Upstash-Forward-" + name] = values[0]!; // an empty one too
    }
  }
  return headers;
}
