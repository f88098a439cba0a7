// The token of the signed-in user. It lives as long as a tab of the console does, unless the user
// wants to stay signed in, and goes to the server this page came from and to its other tabs.

const key = "posthaste.token";

// takeFromAddress signs in with the token that an address brings behind its #, which
// browsers send to nobody, and takes it out of the address.
export function takeFromAddress(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    sessionStorage.setItem(key, given);
    history.replaceState(null, "", location.pathname + location.search);
  }
}

export function token(): string {
  return sessionStorage.getItem(key) ?? localStorage.getItem(key) ?? "";
}

export function signIn(text: string): void {
  sessionStorage.setItem(key, text);
}

// remember keeps the token in this browser until somebody signs out, or no longer does.
export function remember(keep: boolean): void {
  if (keep) {
    localStorage.setItem(key, token());
  } else {
    sessionStorage.setItem(key, token());
    localStorage.removeItem(key);
  }
}

export function isRemembered(): boolean {
  return localStorage.getItem(key) !== null;
}

export function signOut(): void {
  sessionStorage.removeItem(key);
  localStorage.removeItem(key);
}

// Word is what tabs say to each other. Browsers pass it on within one origin only.
type Word = { wanted: true } | { token: string } | { ended: string };

let others: BroadcastChannel | undefined;

const soon = 200; // ms that a tab waits for the others

// onChange is called when a token comes from another tab, or was signed out in one.
let onChange: () => void = () => {};

export function whenSessionChanges(then: () => void): void {
  onChange = then;
}

// shareSession asks the other tabs for their token if this one has none, waits a moment for
// it, and answers those that ask later.
export function shareSession(): Promise<void> {
  others = new BroadcastChannel(key);
  return new Promise((resume) => {
    others!.onmessage = ({ data: word }: MessageEvent<Word>) => {
      if ("wanted" in word && token() !== "") {
        others!.postMessage({ token: token() } satisfies Word);
      } else if ("token" in word && token() === "") {
        signIn(word.token);
        onChange();
        resume();
      } else if ("ended" in word && word.ended === token()) {
        signOut();
        onChange();
      }
    };
    if (token() !== "") {
      resume();
      return;
    }
    others!.postMessage({ wanted: true } satisfies Word);
    setTimeout(resume, soon);
  });
}

// signOutEverywhere signs this tab out, and those that have the same token.
export function signOutEverywhere(): void {
  others?.postMessage({ ended: token() } satisfies Word);
  signOut();
}

export interface Identity {
  user: string;
  readOnly: boolean;
}

// identity returns whose token it is, as the token itself says.
export function identity(): Identity {
  try {
    const read = JSON.parse(atob(token()));
    return { user: String(read.UserID), readOnly: read.ReadOnly === true };
  } catch {
    return { user: "", readOnly: false };
  }
}
