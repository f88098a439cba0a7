// The frame of all views: navigation, keys, and the message that is open.

import { Component, type ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

import { explain, whenUnauthorized } from "./api";
import { go, href, setParams, usePlace } from "./router";
import { identity, signOutEverywhere, token, whenSessionChanges } from "./session";
import { SignIn } from "./signin";
import { Dialog, Empty, Fault, Mark } from "./ui/widgets";
import { views, type View } from "./views";
import { MessageDrawer } from "./views/message";

export function App() {
  const [signedIn, setSignedIn] = useState(token() !== "");
  const [ended, setEnded] = useState(""); // why, "" if at a wish
  const leave = (why: string) => {
    setEnded(why);
    setSignedIn(false);
  };
  useEffect(() => {
    whenUnauthorized((says) => leave("You were signed out: " + says));
    whenSessionChanges(() => setSignedIn(token() !== ""));
  }, []);
  if (!signedIn) {
    return <SignIn ended={ended} onDone={() => setSignedIn(true)} />;
  }
  return <Frame onSignOut={() => { signOutEverywhere(); leave(""); }} />;
}

function Frame({ onSignOut }: { onSignOut: () => void }) {
  const place = usePlace();
  const [help, setHelp] = useState(false);
  const open = place.params.get("open");
  const view = views.find((one) => place.path === one.path || place.path.startsWith(one.path + "/")) ?? missing;
  useKeys(() => setHelp(true));
  useEffect(() => {
    document.title = view.name + " · Posthaste";
    document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [view]);
  const { user, readOnly } = identity();
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")!.focus(); }}>Skip to content</a>
      <nav aria-label="Views">
        <p class="brand"><Mark /></p>
        <ul>
          {views.filter((one) => one.under === undefined).map((one) => (
            <li key={one.path} class={one.begins ? "begins" : undefined}>
              <a href={href(one.path)} aria-current={one.path === (view.under ?? view.path) ? "page" : undefined}>{one.name}<kbd aria-hidden="true">g {one.key}</kbd></a>
            </li>
          ))}
        </ul>
        <div class="who">
          <p title="The user of this token">{user || "token"}{readOnly && <small> · read-only</small>}</p>
          <div>
          <a href={href("/start")} aria-current={view.path === "/start" ? "page" : undefined}>Connect</a>
          <a href="/docs" target="_blank" rel="noopener">Docs</a>
          <button class="quiet" onClick={() => setHelp(true)}>Shortcuts</button>
          <button class="quiet" onClick={onSignOut}>Sign out</button>
          </div>
        </div>
      </nav>
      <main id="main" tabIndex={-1} class={open === null ? undefined : "beside"}>
        <Guard key={place.path}><view.Component path={place.path.slice(view.path.length + 1)} /></Guard>
        {open !== null && <MessageDrawer key={open} id={open} />}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </div>
  );
}

// missing is shown where there is no view.
const missing: View = {
  name: "Page not found", path: "", key: "",
  Component: () => <section class="view" aria-labelledby="title"><header class="bar"><h1 id="title">Page not found</h1></header><Empty title="There is no page here"><p>Choose one in the navigation.</p></Empty></section>,
};

// Guard shows what went wrong in a view rather than an empty page; the navigation stays.
class Guard extends Component<{ children: ComponentChildren }, { error?: unknown }> {
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  render() {
    if (this.state.error === undefined) {
      return this.props.children;
    }
    return <section class="view"><Fault again={() => location.reload()}>This view has failed: {explain(this.state.error)}</Fault></section>;
  }
}

const movements = ["j", "k", "ArrowDown", "ArrowUp"];

// useKeys are the keys that work everywhere but in a field.
function useKeys(onHelp: () => void): void {
  useEffect(() => {
    let prefix = false;
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && document.querySelector("dialog[open]") === null) {
        closeOpen(target);
        return;
      }
      if (target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) {
        return;
      }
      const chosen = prefix ? views.find((view) => view.key === event.key) : undefined;
      prefix = event.key === "g";
      if (chosen !== undefined) {
        event.preventDefault();
        go(chosen.path);
      } else if (movements.includes(event.key) && document.activeElement === document.body) { // into the table, which takes it from there
        document.querySelector<HTMLElement>("[role=grid]")?.focus();
      } else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLElement>(".filter-text")?.focus();
      } else if (event.key === "?") {
        onHelp();
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

// closeOpen leaves a field, or else closes the message that is open.
function closeOpen(target: HTMLElement): void {
  if (target.matches("input, textarea, select")) {
    target.blur();
  } else if (new URLSearchParams(location.search).has("open")) {
    setParams({ open: undefined });
    document.querySelector<HTMLElement>("[role=grid]")?.focus();
  }
}

function Help({ onClose }: { onClose: () => void }) {
  const keys: [string, string][] = [
    ...views.map((view: View): [string, string] => ["g " + view.key, view.name]),
    ["/", "Filter"],
    ["↑ ↓ or k j", "Move in a table"],
    ["Enter", "Open the row"],
    ["Space", "Select the row"],
    ["Esc", "Close the open panel"],
    ["?", "Show these shortcuts"],
  ];
  return (
    <Dialog title="Shortcuts" onClose={onClose}>
      <dl class="keys">{keys.map(([key, name]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{name}</dd></div>)}</dl>
    </Dialog>
  );
}
