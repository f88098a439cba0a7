// The address of a view: its path below /console and its parameters. Everything that
// is needed to see the same again is in it.

import { useLayoutEffect, useState } from "preact/hooks";

export const base = "/console";

export interface Place {
  path: string; // "/logs"
  params: URLSearchParams;
}

function here(): Place {
  const path = location.pathname.slice(base.length).replace(/\/+$/, "");
  return { path: path === "" ? "/overview" : path, params: new URLSearchParams(location.search) };
}

const listeners = new Set<() => void>();

function tell(): void {
  for (const listener of listeners) {
    listener();
  }
}

window.addEventListener("popstate", tell);

// go shows another view, or the same one with other parameters.
export function go(path: string, params?: URLSearchParams, replace = false): void {
  const target = href(path, params);
  if (replace) {
    history.replaceState(null, "", target);
  } else {
    history.pushState(null, "", target);
  }
  tell();
}

// visit shows what a link of the console leads to.
export function visit(target: string): void {
  history.pushState(null, "", target);
  tell();
}

export function href(path: string, params?: URLSearchParams | Record<string, string>): string {
  const text = params === undefined ? "" : new URLSearchParams(params).toString();
  return base + path + (text === "" ? "" : "?" + text);
}

// hrefWith returns the address of the present view with other parameters.
export function hrefWith(changes: Record<string, string>): string {
  const place = here();
  Object.entries(changes).forEach(([name, value]) => place.params.set(name, value));
  return href(place.path, place.params);
}

// openHref returns the address of the present view with a message open beside it.
export function openHref(messageId: string): string {
  return hrefWith({ open: messageId });
}

// segment returns a part of a path as it was before it was escaped.
export function segment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed it
  }
}

// setParams changes parameters of the present view; undefined removes one.
export function setParams(changes: Record<string, string | string[] | undefined>, replace = false): void {
  const place = here();
  for (const [name, value] of Object.entries(changes)) {
    place.params.delete(name);
    for (const one of value === undefined ? [] : [value].flat()) {
      place.params.append(name, one);
    }
  }
  go(place.path, place.params, replace);
}

export function usePlace(): Place {
  const [place, setPlace] = useState(here);
  useLayoutEffect(() => { // not later: a quick user changes the address at once
    const update = () => setPlace(here());
    listeners.add(update);
    return () => void listeners.delete(update);
  }, []);
  return place;
}

// followLinks makes links between views change the view rather than load the page.
export function followLinks(): void {
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
      return;
    }
    const link = (event.target as Element).closest<HTMLAnchorElement>("a, button, input, select, label");
    if (link?.localName !== "a" || link.target !== "" || link.origin !== location.origin || !link.pathname.startsWith(base)) {
      return;
    }
    if (link.hash !== "" && link.pathname + link.search === location.pathname + location.search) {
      return; // within the page, which the browser does
    }
    event.preventDefault();
    visit(link.href);
  });
}
