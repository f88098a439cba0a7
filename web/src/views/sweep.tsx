// The dialog of a bulk change: first how many entries and which, then how far it is, then
// what became of each.

import { useEffect, useRef, useState } from "preact/hooks";

import { explain } from "../api";
import { useAsked } from "../feed";
import { count, plural } from "../format";
import { href } from "../router";
import { preview, sweep, type Deed, type Preview, type Result, type Selection } from "../sweep";
import type { RunRef } from "../types";
import { Dialog, Fault, Field } from "../ui/widgets";
import { runPlace } from "./runs";

interface Props {
  deed: Deed;
  kind: Selection["kind"];
  ids: string[] | null;
  filters: URLSearchParams;
  runOf: (dlqId: string) => RunRef | undefined; // the failed run, if it is known here
  onClose: (changed: boolean) => void;
}

// overrides are the settings that can be given instead of an entry's own.
const overrides: { header: string; label: string; hint: string }[] = [
  { header: "Upstash-Retries", label: "Retries", hint: "How often a failed attempt is repeated." },
  { header: "Upstash-Retry-Delay", label: "Retry delay", hint: "Milliseconds, or an expression such as 1000 * pow(2, retried)." },
  { header: "Upstash-Delay", label: "Delay", hint: "Before the start, such as 30s or 10m." },
  { header: "Upstash-Flow-Control-Key", label: "Flow-control key", hint: "To start many without a rush." },
  { header: "Upstash-Flow-Control-Value", label: "Flow-control limits", hint: "Such as parallelism=5 or rate=10,period=1m." },
];

const listed = 200; // results that are drawn

export function SweepDialog({ deed, kind, ids, filters, runOf, onClose }: Props) {
  const selection: Selection = { kind, ids, filters };
  const { data: found, error } = useAsked("once", (signal) => preview(selection, signal));
  const [headers, setHeaders] = useState<Record<string, string>>({});
  const { progress, begin, stop } = useSweep(deed, selection);
  const { state } = progress;
  const close = () => {
    stop();
    onClose(state !== "asking");
  };
  return (
    <Dialog title={deed.name + (kind === "runs" ? " workflow runs" : " messages")} onClose={close} wide>
      <div class="stack">
        {error !== "" && <Fault>{error}</Fault>}
        {state === "asking" && found === undefined && error === "" && <p>Counting…</p>}
        {state === "asking" && found !== undefined && <Asking deed={deed} found={found} match={ids === null} headers={headers} onHeaders={setHeaders} />}
        {state !== "asking" && <Doing deed={deed} total={found?.total ?? 0} progress={progress} runOf={runOf} />}
        <footer>
          {state === "asking" && <button onClick={close}>Keep as it is</button>}
          {state === "asking" && (
            <button class={deed.danger ? "danger" : "primary"} disabled={found === undefined || found.total === 0} onClick={() => void begin(headers)}>
              {deed.name} {found !== undefined && plural(found.total, "entry", "entries")}
            </button>
          )}
          {state === "running" && <button onClick={stop}>Stop</button>}
          {(state === "done" || state === "stopped") && <button class="primary" onClick={close}>Done</button>}
        </footer>
      </div>
    </Dialog>
  );
}

// Progress is how far a sweep is.
interface Progress {
  state: "asking" | "running" | "stopped" | "done";
  results: Result[];
  deleted: number;
  fault: string; // what it has stopped at, "" if at a wish
}

// useSweep returns a sweep that begins when it is told to.
function useSweep(deed: Deed, selection: Selection) {
  const [progress, setProgress] = useState<Progress>({ state: "asking", results: [], deleted: 0, fault: "" });
  const stopping = useRef(new AbortController());
  useEffect(() => () => stopping.current.abort(), []);
  const change = (to: Partial<Progress>) => setProgress((old) => ({ ...old, ...to }));
  const take = (results: Result[], deleted: number) =>
    setProgress((old) => ({ ...old, results: [...old.results, ...results], deleted: old.deleted + deleted }));
  const begin = async (headers: Record<string, string>) => {
    change({ state: "running" });
    const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value.trim() !== ""));
    try {
      await sweep(deed, selection, given, take, stopping.current.signal);
      change({ state: stopping.current.signal.aborted ? "stopped" : "done" });
    } catch (failure) {
      change({ state: "stopped", fault: explain(failure) });
    }
  };
  return { progress, begin, stop: () => stopping.current.abort() };
}

interface AskingProps {
  deed: Deed;
  found: Preview;
  match: boolean; // they are those that match, and not chosen one by one
  headers: Record<string, string>;
  onHeaders: (headers: Record<string, string>) => void;
}

// Asking tells what would be changed, and takes settings for it.
function Asking({ deed, found, match, headers, onHeaders }: AskingProps) {
  return (
    <>
      <p><b>{found.atLeast ? "At least " : ""}{plural(found.total, "entry", "entries")}</b> {match ? (found.total === 1 ? "matches and" : "match and") : ""} would be {deed.done}. Nothing has been changed yet.</p>
      <details>
        <summary>Which</summary>
        <ol class="ids">{found.first.slice(0, 50).map((id) => <li key={id}><code>{id}</code></li>)}</ol>
        {found.total > 50 && <p class="muted">and {count(found.total - 50)} more</p>}
      </details>
      {deed.overrides && (
        <details>
          <summary>With other settings</summary>
          <div class="fields">
            {overrides.map(({ header, label, hint }) => (
              <Field key={header} label={label} hint={hint}>
                <input value={headers[header] ?? ""} onInput={(event) => onHeaders({ ...headers, [header]: event.currentTarget.value })} />
              </Field>
            ))}
          </div>
        </details>
      )}
    </>
  );
}

interface DoingProps {
  deed: Deed;
  total: number;
  progress: Progress;
  runOf: Props["runOf"];
}

// Doing tells what has been changed so far. Of the page at which a sweep has stopped with a
// fault nobody here knows whether it was changed.
function Doing({ deed, total, progress: { state, results, deleted, fault }, runOf }: DoingProps) {
  const failed = results.filter((result) => result.error !== undefined);
  const processed = results.length + deleted;
  const ends = { asking: "", running: "", done: ".", stopped: fault === "" ? ". Stopped: the others are still there." : ". Stopped: more may have been changed than is shown here, look again." };
  return (
    <>
      <progress aria-label="Progress" value={processed} max={Math.max(total, processed, 1)} />
      <p role="status">
        {state === "running" ? deed.doing + "… " : ""}
        <b>{count(processed - failed.length)}</b> {deed.done}{failed.length > 0 && <>, <b class="error-text">{count(failed.length)} not</b></>}
        {ends[state]}
      </p>
      {fault !== "" && <Fault>{fault}</Fault>}
      {results.length > 0 && <Results results={[...failed, ...results.filter((result) => result.error === undefined)]} runOf={runOf} />}
    </>
  );
}

function Results({ results, runOf }: { results: Result[]; runOf: Props["runOf"] }) {
  return (
    <div class="results" tabIndex={0} role="region" aria-label="Results">
      <table class="plain">
        <thead><tr><th>Entry</th><th>Became</th></tr></thead>
        <tbody>
          {results.slice(0, listed).map((result, i) => (
            <tr key={i}>
              <td><Entry id={result.dlqId} run={runOf(result.dlqId)} /></td>
              <td>{result.error !== undefined ? <span class="error-text">{result.error}</span> : <Became result={result} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {results.length > listed && <p class="muted">and {count(results.length - listed)} more</p>}
    </div>
  );
}

function Entry({ id, run }: { id: string; run: RunRef | undefined }) {
  return run === undefined ? <code>{id}</code> : <a href={href(...runPlace(run))} title={id}>{run.workflowRunId}</a>;
}

function Became({ result }: { result: Result }) {
  if (result.run !== undefined) {
    const place = runPlace({ workflowRunId: result.run.id, workflowRunCreatedAt: result.run.createdAt });
    return <a href={href(...place)}>{result.run.id}</a>;
  }
  return <a href={href("/logs", { messageId: result.messageId!, open: result.messageId! })}>{result.messageId}</a>;
}
