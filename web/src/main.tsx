import { render } from "preact";

import { App } from "./app";
import { ignoreStrayClicks, keepFocus } from "./pointer";
import { followLinks } from "./router";
import { shareSession, takeFromAddress } from "./session";
import "./style.css";
import { showTheme } from "./theme";

const app = document.getElementById("app")!;
showTheme();
takeFromAddress();
ignoreStrayClicks();
followLinks();
keepFocus(app);
await shareSession();
app.replaceChildren(); // what said that it is loading
render(<App />, app);
