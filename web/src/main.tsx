import { render } from "preact";

import { App } from "./app";
import { followLinks } from "./router";
import { takeFromAddress } from "./session";
import "./style.css";

takeFromAddress();
followLinks();
render(<App />, document.getElementById("app")!);
