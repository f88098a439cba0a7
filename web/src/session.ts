// The token of whoever is signed in. It lives as long as the tab does, and goes
// nowhere but to the server this page came from.

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
  return sessionStorage.getItem(key) ?? "";
}

export function signIn(text: string): void {
  sessionStorage.setItem(key, text);
}

export function signOut(): void {
  sessionStorage.removeItem(key);
}

export interface Identity {
  user: string;
  readOnly: boolean;
}

// identity tells whose token it is, as the token itself says.
export function identity(): Identity {
  try {
    const read = JSON.parse(atob(token()));
    return { user: String(read.UserID), readOnly: read.ReadOnly === true };
  } catch {
    return { user: "", readOnly: false };
  }
}
