// The life of one message, beside whatever view it was opened from.

import { useEffect, useRef, useState } from "preact/hooks";

import { call, explain, get } from "../api";
import { useAsked, useRepeated } from "../feed";
import { clock, count, span } from "../format";
import { attempts, isCut, readLife, wholeOf, type Life } from "../life";
import { deleteLetter, letterOf, retryLetter, runMessageNow } from "../messages";
import { curl, publicationOf, publish, refusal, unsendable } from "../publication";
import { href, setParams } from "../router";
import type { DeadLetter, LogEntry } from "../types";
import { Act, Ask, useChange, type Change } from "../ui/act";
import { Badge, Body, Copy, Facts, Fault, HeaderList, Loading, Tag, Time } from "../ui/widgets";
import { whyMessage } from "../why";

const ended = new Set(["DELIVERED", "FAILED", "CANCELLED"]);

const pause = 1000; // ms between two readings of a message that has not ended

// MessageDrawer shows one message; another message gets a new one.
export function MessageDrawer({ id }: { id: string }) {
  const panel = useRef<HTMLElement>(null);
  const life = useRef<Life | undefined>(undefined);
  const { data, error, again } = useAsked(id, async (signal) => {
    life.current = await readLife(id, life.current, signal);
    return { life: life.current };
  });
  const newest = data?.life?.newest;
  useEffect(() => {
    panel.current!.focus();
  }, [id]);
  useRepeated(again, pause, newest !== undefined && !ended.has(newest.state));
  return (
    <aside class="drawer" ref={panel} tabIndex={-1} aria-label={"Message " + id}>
      <header>
        <div>
          <h2>Message {newest !== undefined && <Badge state={newest.state} />}</h2>
          <p><code>{id}</code> <Copy text={() => id}>Copy id</Copy></p>
        </div>
        <button class="quiet" aria-label="Close message" onClick={() => setParams({ open: undefined })}>×</button>
      </header>
      {error !== "" && <Fault again={() => void again()}>{error}</Fault>}
      {data === undefined && error === "" && <Loading />}
      {data !== undefined && data.life === undefined && <WithoutLog id={id} />}
      {data?.life !== undefined && <WithLog life={data.life} again={again} />}
    </aside>
  );
}

// WithoutLog shows what the DLQ has of a message whose log was dropped: dead letters are
// kept for longer.
function WithoutLog({ id }: { id: string }) {
  const { data, again } = useAsked(id, (signal) => get<{ messages: DeadLetter[] }>("/v2/dlq", { messageId: id }, signal));
  const [change, fault] = useChange(again);
  const letter = data?.messages[0];
  return (
    <>
      <p class="muted">The log has no entries of this message: it is older than the retention period, or belongs to another user.</p>
      {letter !== undefined && (
        <>
          <div class="deeds">
            <Retry letter={letter.dlqId} change={change} />
            <DeleteLetter letter={letter.dlqId} change={change} onDone={() => {}} />
          </div>
          {fault !== "" && <Fault>{fault}</Fault>}
          <h3>In the DLQ since {clock(letter.failedAt)}</h3>
          <p class="request-line"><b>{letter.method}</b> <span>{letter.url}</span></p>
          <Body text={letter.body} base64={letter.bodyBase64} label="Body of the message" />
          <h3>Last response <Tag tone="red">{letter.responseStatus || "none"}</Tag></h3>
          <p class="error-text">{letter.error}</p>
          <HeaderList headers={letter.responseHeader} />
          <Body text={letter.responseBody} base64={letter.responseBodyBase64} label="Body of the response" />
        </>
      )}
    </>
  );
}

function WithLog({ life, again }: { life: Life; again: () => Promise<void> }) {
  return (
    <>
      <Deeds last={life.newest} again={again} />
      <Why last={life.newest} />
      <h3>Timeline</h3>
      <Timeline life={life} />
      <h3>Request</h3>
      <Request last={life.newest} />
    </>
  );
}

function Request({ last }: { last: LogEntry }) {
  return (
    <>
      <p class="request-line"><b>{last.method}</b> <span>{last.url}</span></p>
      <Facts of={[
        ["Attempts", `at most ${last.maxRetries + 1}`],
        ["Retry delay", last.retryDelayExpression && <code>{last.retryDelayExpression}</code>],
        ["Timeout", last.timeout && span(last.timeout)],
        ["Labels", last.labels?.join(", ")],
        ["Queue", last.queueName],
        ["URL group", last.topicName],
        ["Endpoint", last.endpointName],
        ["Schedule", last.scheduleId],
        ["Flow control", last.flowControlKey],
        ["Callback", last.callback],
        ["Failure callback", last.failureCallback],
        ["Workflow run", last.workflowRunId && (
          <a href={href("/runs/" + encodeURIComponent(last.workflowRunId), { created: String(last.workflowCreatedAt) })}>{last.workflowRunId}</a>
        )],
      ]} />
      <details>
        <summary>Headers</summary>
        <HeaderList headers={last.header} />
      </details>
      <Body base64={last.body} label="Body of the message" />
    </>
  );
}

function Timeline({ life: { changes, more } }: { life: Life }) {
  const numbers = attempts(changes);
  return (
    <>
      <ol class="timeline">
        {changes.map((entry, i) => <Change key={i} entry={entry} before={changes[i - 1]} first={changes[0]!} attempt={numbers[i]!} />)}
      </ol>
      {more && <p class="muted">These are the first {count(changes.length)} changes. <i>Show log</i> lists all of them, newest first.</p>}
    </>
  );
}

const told: Record<string, string> = {
  CREATED: "Accepted and stored",
  ACTIVE: "Attempt",
  ERROR: "The attempt failed",
  RETRY: "Retry scheduled",
  DELIVERED: "Delivered",
  FAILED: "Failed permanently; moved to the DLQ",
  CANCEL_REQUESTED: "Cancellation requested",
  CANCELLED: "Cancelled",
};

interface ChangeProps {
  entry: LogEntry;
  before: LogEntry | undefined;
  first: LogEntry;
  attempt: number;
}

function Change({ entry, before, first, attempt }: ChangeProps) {
  const tookPart = before?.state === "ACTIVE" && (entry.state === "ERROR" || entry.state === "DELIVERED" || entry.state === "FAILED");
  return (
    <li class={entry.state.toLowerCase()}>
      <p>
        <Badge state={entry.state} /> <b>{told[entry.state]}{attempt > 0 && ` ${attempt}`}</b>
        {entry.state === "DELIVERED" && entry.attempt?.status !== undefined && <Tag tone="green">{entry.attempt.status}</Tag>}
        {tookPart && <span class="took">took {span(entry.time - before.time)}</span>}
      </p>
      <p class="muted"><Time at={entry.time} />{entry !== first && <> · {span(entry.time - first.time)} after acceptance</>}</p>
      {entry.nextDeliveryTime !== undefined && <p>Next attempt at {clock(entry.nextDeliveryTime)}</p>}
      {entry.error !== undefined && <p class="error-text">{entry.error}</p>}
      {entry.responseStatus !== undefined && <Answer to={entry} />}
    </li>
  );
}

// Answer shows what a destination has answered: the beginning, and all of it at a wish.
function Answer({ to: entry }: { to: LogEntry }) {
  const [whole, setWhole] = useState<LogEntry>();
  const [fault, setFault] = useState("");
  const read = () => wholeOf(entry).then(setWhole, (error) => setFault(explain(error)));
  const { responseStatus, responseBody } = whole ?? entry;
  return (
    <details open={entry.state === "ERROR" && (entry.responseBody ?? "") !== ""}>
      <summary>Response <Tag tone={responseStatus! < 300 ? "green" : "orange"}>{responseStatus || "none"}</Tag></summary>
      <Body base64={responseBody} label="Body of the response" />
      <details>
        <summary class="muted">Headers</summary>
        <HeaderList headers={entry.responseHeaders} />
      </details>
      {whole === undefined && isCut(responseBody)
        ? <p class="muted">The response is shortened. <button onClick={() => void read()}>Show the whole response</button></p>
        : entry.responseTruncated && <p class="muted">The response was larger; only its beginning is stored.</p>}
      {fault !== "" && <Fault>{fault}</Fault>}
    </details>
  );
}

function Deeds({ last, again }: { last: LogEntry; again: () => Promise<void> }) {
  const { data: dlq, again: lookAgain } = useAsked(last.messageId + last.state, async (signal) => ({
    letter: last.state === "FAILED" && last.workflowRunId === undefined ? await letterOf(last.messageId, signal) : undefined,
  }));
  const [said, setSaid] = useState("");
  const [change, fault] = useChange(async () => void await Promise.all([again(), lookAgain()]));
  const cannot = refusal(last) || unsendable(last);
  const cancel = async () => {
    await call("DELETE", "/v2/messages/" + last.messageId);
    setSaid("Cancellation requested.");
  };
  const runNow = async () => {
    await runMessageNow(last.messageId);
    setSaid("It will be delivered now.");
  };
  const repeat = async () => setParams({ open: await publish(publicationOf(last)) });
  return (
    <>
      <div class="deeds">
        {dlq?.letter !== undefined && <Retry letter={dlq.letter} change={change} />}
        {dlq !== undefined && dlq.letter === undefined && <Act change={change} deed={repeat} disabled={cannot !== ""} title={cannot}>Publish again</Act>}
        {waitsForTime(last) && <Act change={change} deed={runNow} title="Delivers it now instead of at its scheduled time">Run now</Act>}
        {refusal(last) === "" && <Copy text={() => curl(publicationOf(last))}>Copy as curl</Copy>}
        <a class="button" href={href("/logs", { messageId: last.messageId })}>Show log</a>
        {!ended.has(last.state) && (
          <Ask change={change} deed={cancel} title="Cancel this message" submit="Cancel the message" means="No further attempts are made. An attempt in flight is allowed to finish.">Cancel</Ask>
        )}
        {dlq?.letter !== undefined && <DeleteLetter letter={dlq.letter} change={change} onDone={() => setSaid("Deleted from the DLQ.")} />}
      </div>
      {dlq !== undefined && dlq.letter === undefined && last.state === "FAILED" && last.workflowRunId === undefined && <p class="muted">It is no longer in the DLQ: it was retried, which made a new message, or deleted.</p>}
      {dlq !== undefined && dlq.letter === undefined && cannot !== "" && <p class="muted">Cannot be published again here: {cannot}.</p>}
      {said !== "" && <p role="status">{said}</p>}
      {fault !== "" && <Fault>{fault}</Fault>}
    </>
  );
}

// waitsForTime reports whether a message waits for its time, and for nothing else that the
// server would refuse to run it before.
function waitsForTime(last: LogEntry): boolean {
  return (last.state === "CREATED" || last.state === "RETRY") && (last.nextDeliveryTime ?? 0) > Date.now() && last.queueName === undefined;
}

// Retry publishes again what is in the DLQ, in place of its entry there.
function Retry({ letter, change }: { letter: string; change: Change }) {
  return <Act primary change={change} deed={async () => setParams({ open: await retryLetter(letter) })} title="Publishes it again and removes it from the DLQ">Retry</Act>;
}

function DeleteLetter({ letter, change, onDone }: { letter: string; change: Change; onDone: () => void }) {
  return <Ask change={change} deed={() => deleteLetter(letter).then(onDone)} title="Delete the dead letter" submit="Delete" means="It can no longer be retried. Its log entries are kept.">Delete</Ask>;
}

// Why asks what a message that has not ended waits for.
function Why({ last }: { last: LogEntry }) {
  const { data, error } = useAsked(last.messageId + last.state + last.time, (signal) => whyMessage(last, signal));
  if (ended.has(last.state)) {
    return null;
  }
  return (
    <div class="why">
      <h3>Why is it not moving?</h3>
      {error !== "" && <Fault>{error}</Fault>}
      <ul>{data?.map((reason) => <li key={reason}>{reason}</li>)}</ul>
    </div>
  );
}
