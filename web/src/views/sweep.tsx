// The dialog of a bulk change: first how many entries and which, then how far it is, then
// what became of each.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";

import { explain, wasRefused } from "../api";
import { useAsked } from "../feed";
import { count, plural } from "../format";
import { href } from "../router";
import { overrides, preview, sweep, type Deed, type Entry, type Preview, type Result, type Selection } from "../sweep";
import { Dialog, Fault, Overrides } from "../ui/widgets";
import { runPlace } from "./runs";

interface Props {
  deed: Deed;
  kind: Selection["kind"];
  chosen: Selection["chosen"];
  filters: URLSearchParams;
  onClose: (changed: boolean) => void;
}

const listed = 200; // results that are drawn

export function SweepDialog({ deed, kind, chosen, filters, onClose }: Props) {
  const selection: Selection = { kind, chosen, filters };
  const { data: found, error } = useAsked("once", (signal) => preview(selection, signal));
  const [headers, setHeaders] = useState<Record<string, string>>({});
  const { progress, begin, stop, back } = useSweep(deed, selection);
  const { state } = progress;
  const ended = state === "done" || state === "stopped";
  const close = () => {
    stop();
    onClose(state === "running" || progress.results.length > 0 || !isUnchanged(progress));
  };
  return (
    <Dialog title={deed.name + (kind === "runs" ? " workflow runs" : " messages")} onClose={close} wide>
      <div class="stack">
        {error !== "" && <Fault>{error}</Fault>}
        {state === "asking" && found === undefined && error === "" && <p>Counting…</p>}
        {state === "asking" && found !== undefined && <Asking deed={deed} found={found} match={chosen === null} headers={headers} onHeaders={setHeaders} />}
        {state !== "asking" && <Doing deed={deed} found={found!} progress={progress} />}
        <footer>
          {state === "asking" && <button onClick={close}>Keep as it is</button>}
          {state === "asking" && (
            <button class={deed.danger ? "danger" : "primary"} disabled={found === undefined || found.total === 0} onClick={() => void begin(headers)}>
              {deed.name} {found !== undefined && plural(found.total, "entry", "entries")}
            </button>
          )}
          {state === "running" && <button onClick={stop}>Stop</button>}
          {ended && isUnchanged(progress) && <button onClick={back}>Back</button>}
          {ended && <button class="primary" onClick={close}>Done</button>}
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
  unsure: boolean; // whether what it has stopped at was changed
}

const asking: Progress = { state: "asking", results: [], deleted: 0, fault: "", unsure: false };

// isUnchanged reports whether a sweep is known to have changed nothing so far.
function isUnchanged({ results, deleted, unsure }: Progress): boolean {
  return deleted === 0 && !unsure && results.every((result) => result.error !== undefined && result.unsure !== true);
}

// useSweep returns a sweep that begins on request.
function useSweep(deed: Deed, selection: Selection) {
  const [progress, setProgress] = useState(asking);
  const stopping = useRef(new AbortController());
  useEffect(() => () => stopping.current.abort(), []);
  const change = (to: Partial<Progress>) => setProgress((old) => ({ ...old, ...to }));
  const take = (results: Result[], deleted: number) =>
    setProgress((old) => ({ ...old, results: [...old.results, ...results], deleted: old.deleted + deleted }));
  const begin = async (headers: Record<string, string>) => {
    stopping.current = new AbortController();
    change({ state: "running" });
    const given = Object.fromEntries(Object.entries(headers).filter(([, value]) => value.trim() !== ""));
    try {
      await sweep(deed, selection, given, take, stopping.current.signal);
      change({ state: stopping.current.signal.aborted ? "stopped" : "done" });
    } catch (failure) {
      change({ state: "stopped", fault: explain(failure), unsure: !wasRefused(failure) });
    }
  };
  return { progress, begin, stop: () => stopping.current.abort(), back: () => setProgress(asking) };
}

interface AskingProps {
  deed: Deed;
  found: Preview;
  match: boolean; // they are those that match, and not chosen one by one
  headers: Record<string, string>;
  onHeaders: (headers: Record<string, string>) => void;
}

// Asking shows what would be changed, and takes settings for it.
function Asking({ deed, found, match, headers, onHeaders }: AskingProps) {
  const [given] = useState(Object.keys(headers).length > 0); // before, and refused
  return (
    <>
      <p><b>{found.atLeast ? "At least " : ""}{plural(found.total, "entry", "entries")}</b> {match ? (found.total === 1 ? "matches and" : "match and") : ""} would be {deed.done}. Nothing has been changed yet.</p>
      {deed.means !== undefined && <p class="muted">{deed.means}</p>}
      {found.total > 0 && (
        <details>
          <summary>Which entries</summary>
          <Which entries={found.first} total={found.total} />
        </details>
      )}
      {deed.overrides && (
        <details open={given}>
          <summary>Override settings</summary>
          <Overrides of={overrides} headers={headers} onHeaders={onHeaders} />
        </details>
      )}
    </>
  );
}

// Which lists the first entries of a selection.
function Which({ entries, total }: { entries: Entry[]; total: number }) {
  const shown = entries.slice(0, 50);
  return (
    <div class="results" tabIndex={0} role="region" aria-label="Entries">
      <table class="plain">
        <thead><tr><th>{kindOf(entries)}</th><th>Destination</th></tr></thead>
        <tbody>{shown.map((entry) => <tr key={entry.id}><td><EntryLink to={entry} /></td><td>{entry.url}</td></tr>)}</tbody>
      </table>
      {total > shown.length && <p class="muted">and {count(total - shown.length)} more</p>}
    </div>
  );
}

function kindOf(entries: Entry[]): string {
  return entries[0]?.run === undefined ? "Message" : "Run";
}

function EntryLink({ to: { run, messageId } }: { to: Entry }) {
  return run === undefined ? <MessageLink id={messageId} /> : <a href={href(...runPlace(run))}>{run.workflowRunId}</a>;
}

function MessageLink({ id }: { id: string }) {
  return <a href={href("/messages", { messageId: id, open: id })}>{id}</a>;
}

interface DoingProps {
  deed: Deed;
  found: Preview;
  progress: Progress;
}

// Doing shows what has been changed so far.
function Doing({ deed, found, progress }: DoingProps) {
  const { state, results, deleted, fault } = progress;
  const failed = results.filter((result) => result.error !== undefined);
  const processed = results.length + deleted;
  return (
    <>
      <progress aria-label="Progress" value={processed} max={Math.max(found.total, processed, 1)} />
      <p role="status">
        {state === "running" ? deed.doing + "… " : ""}
        <b>{count(processed - failed.length)}</b> {deed.done}{failed.length > 0 && <>, <b class="error-text">{count(failed.length)} not</b></>}
        {endOf(progress)}
      </p>
      {fault !== "" && <Fault>{fault}</Fault>}
      {results.length > 0 && <Results results={[...failed, ...results.filter((result) => result.error === undefined)]} known={found.first} />}
    </>
  );
}

function endOf(progress: Progress): string {
  if (progress.state === "running") {
    return "";
  }
  if (isUnchanged(progress)) {
    return ". Nothing has been changed.";
  }
  if (progress.state === "done") {
    return ".";
  }
  return progress.unsure
    ? ". Stopped: more entries may have been changed than are shown here; check the list."
    : ". Stopped: the other entries were not changed.";
}

function Results({ results, known }: { results: Result[]; known: Entry[] }) {
  const entries = useMemo(() => new Map(known.map((entry) => [entry.id, entry])), [known]);
  return (
    <div class="results" tabIndex={0} role="region" aria-label="Results">
      <table class="plain">
        <thead><tr><th>{kindOf(known)}</th><th>Result</th></tr></thead>
        <tbody>
          {results.slice(0, listed).map((result, i) => (
            <tr key={i}>
              <td>{entries.has(result.dlqId) ? <EntryLink to={entries.get(result.dlqId)!} /> : <code>{result.dlqId}</code>}</td>
              <td>{result.error !== undefined ? <span class="error-text">{result.error}</span> : <Became result={result} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {results.length > listed && <p class="muted">and {count(results.length - listed)} more</p>}
    </div>
  );
}

function Became({ result }: { result: Result }) {
  if (result.run !== undefined) {
    const place = runPlace({ workflowRunId: result.run.id, workflowRunCreatedAt: result.run.createdAt });
    return <a href={href(...place)}>{result.run.id}</a>;
  }
  return <MessageLink id={result.messageId!} />;
}
