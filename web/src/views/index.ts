// The views there are, in the order of the navigation.

import type { ComponentType } from "preact";

import { DLQ } from "./dlq";
import { FlowKeys } from "./flow";
import { Groups } from "./groups";
import { Logs } from "./logs";
import { Messages } from "./messages";
import { Overview } from "./overview";
import { Queues } from "./queues";
import { Runs } from "./runs";
import { Schedules } from "./schedules";
import { Settings } from "./settings";
import { Signature } from "./signature";
import { Start } from "./start";

export interface View {
  name: string;
  path: string;
  key: string; // behind g
  begins?: boolean; // a group in the navigation
  under?: string; // the view that it is a tab of
  Component: ComponentType<{ path: string }>; // the rest of the path
}

export const views: View[] = [
  { name: "Overview", path: "/overview", key: "o", Component: Overview },
  { name: "Messages", path: "/messages", key: "m", Component: Messages },
  { name: "Log", path: "/logs", key: "l", under: "/messages", Component: Logs },
  { name: "Workflow runs", path: "/runs", key: "r", Component: Runs },
  { name: "Dead letters", path: "/dlq", key: "d", Component: DLQ },
  { name: "Queues", path: "/queues", key: "q", begins: true, Component: Queues },
  { name: "Schedules", path: "/schedules", key: "s", Component: Schedules },
  { name: "URL groups", path: "/groups", key: "u", Component: Groups },
  { name: "Flow control", path: "/flow", key: "f", Component: FlowKeys },
  { name: "Signature", path: "/signature", key: "i", begins: true, Component: Signature },
  { name: "Settings", path: "/settings", key: "t", Component: Settings },
  { name: "Connect an app", path: "/start", key: "c", under: "/start", Component: Start },
];
