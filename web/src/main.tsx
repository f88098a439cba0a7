import { render } from "preact";

import { App } from "./app";
import { ignoreStrayClicks, keepFocus } from "./pointer";
import { followLinks } from "./router";
import { shareSession, takeFromAddress } from "./session";
import "./style.css";

const app = document.getElementById("app")!;
takeFromAddress();
ignoreStrayClicks();
followLinks();
keepFocus(app);
await shareSession();
render(<App />, app);
