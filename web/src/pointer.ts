// What a page that changes must not do to those who use it: let a click land on what has come
// under the pointer meanwhile, or let the keyboard's focus fall out of the page.

// ignoreStrayClicks drops the second click of a double click if it lands on something else
// than the first: it was meant for what was there before.
export function ignoreStrayClicks(): void {
  let first: EventTarget | null = null;
  document.addEventListener("click", (event) => {
    if (event.detail > 1 && event.target !== first) {
      event.preventDefault();
      event.stopPropagation();
    } else {
      first = event.target;
    }
  }, true);
}

// keepFocus gives the focus, when what had it is gone, to what is there in its place: the
// message that is open, or else the heading of the view. From there Tab continues.
export function keepFocus(app: HTMLElement): void {
  let above: Element[] = []; // what had the focus, and what that was in
  document.addEventListener("focusin", (event) => {
    above = [];
    for (let at: Element | null = event.target as Element; at !== null; at = at.parentElement) {
      above.push(at);
    }
  });
  document.addEventListener("focusout", (event) => queueMicrotask(() => {
    if (above[0] === event.target && above[0].isConnected) {
      above = []; // somebody took it away
    }
  }));
  new MutationObserver(() => {
    if (above.length > 0 && !above[0]!.isConnected && document.activeElement === document.body) {
      heirOf(above, app)?.focus();
    }
  }).observe(app, { childList: true, subtree: true });
}

function heirOf(above: Element[], app: HTMLElement): HTMLElement | null {
  const left = above.find((element) => element.isConnected) ?? app;
  const open = left.closest<HTMLElement>(".drawer");
  const wasOpen = above.some((element) => element.matches(".drawer"));
  const heir = open ?? (wasOpen ? app.querySelector<HTMLElement>("[role=grid]") : null) ?? app.querySelector<HTMLElement>("[autofocus], h1");
  if (heir?.matches("h1")) {
    heir.tabIndex = -1;
  }
  return heir;
}
