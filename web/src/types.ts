// What the API answers, as far as the console reads it. Times are Unix milliseconds.

export type Headers = Record<string, string[]>;

export type State =
  | "CREATED" | "ACTIVE" | "RETRY" | "ERROR" | "DELIVERED" | "FAILED" | "CANCEL_REQUESTED" | "CANCELLED";

export const states: State[] =
  ["CREATED", "ACTIVE", "RETRY", "ERROR", "DELIVERED", "FAILED", "CANCEL_REQUESTED", "CANCELLED"];

export interface MessageFields {
  messageId: string;
  url: string;
  method: string;
  maxRetries: number;
  topicName?: string;
  endpointName?: string;
  queueName?: string;
  scheduleId?: string;
  callback?: string;
  failureCallback?: string;
  retryDelayExpression?: string;
  labels?: string[];
  flowControlKey?: string;
  parallelism?: number;
  rate?: number;
  period?: number; // seconds
  workflowRunId?: string;
  workflowCreatedAt?: number;
  workflowUrl?: string;
}

export interface LogEntry extends MessageFields {
  time: number;
  state: State;
  error?: string;
  nextDeliveryTime?: number;
  header: Headers;
  body: string; // base64, or the mark of a redacted one
  timeout?: number; // ms
  callbackHeaders?: Headers;
  failureCallbackHeaders?: Headers;
  attempt?: { status?: number; duration: number }; // ms, of the attempt that ended
  responseStatus?: number;
  responseBody?: string; // base64
  responseHeaders?: Headers;
  responseTruncated?: boolean;
}

export interface LogPage {
  events: LogEntry[];
  cursor?: string;
}

export interface Message extends MessageFields {
  header?: Headers;
  body?: string;
  bodyBase64?: string;
  notBefore: number;
  createdAt: number;
  callerIP?: string;
}

export interface DeadLetter extends Message {
  dlqId: string;
  failedAt: number;
  error?: string;
  responseStatus: number;
  responseHeader?: Headers;
  responseBody?: string;
  responseBodyBase64?: string;
  failureFunctionState?: string;
}

export type RunState = "RUN_STARTED" | "RUN_SUCCESS" | "RUN_FAILED" | "RUN_CANCELED";

export const runStates: RunState[] = ["RUN_STARTED", "RUN_SUCCESS", "RUN_FAILED", "RUN_CANCELED"];

export type StepState = "STEP_PROGRESS" | "STEP_RETRY" | "STEP_SUCCESS" | "STEP_FAILED" | "STEP_CANCELED";

export interface RunRef {
  workflowRunId: string;
  workflowUrl?: string;
  workflowRunCreatedAt: number;
  dlqId?: string;
}

export interface Attempt {
  error: string;
  body: string;
  headers: Headers;
  status: number;
  time: number;
}

export interface Step {
  stepId?: number;
  stepName?: string;
  stepType?: string;
  callType?: string;
  messageId: string;
  state: StepState;
  createdAt?: number;
  headers?: Headers;
  out?: string;
  retries: number;
  nextDeliveryTime?: number;
  errors?: Attempt[];
  sleepFor?: number; // seconds
  sleepUntil?: number; // Unix seconds
  callUrl?: string;
  callMethod?: string;
  callBody?: string;
  callResponseStatus?: number;
  callResponseBody?: string;
  waitEventId?: string;
  waitTimeoutDuration?: string;
  waitTimeoutDeadline?: number; // Unix seconds
  waitTimeout?: boolean;
  invokedWorkflowRunId?: string;
  invokedWorkflowUrl?: string;
  invokedWorkflowCreatedAt?: number;
  invokedWorkflowRunBody?: string;
}

export interface StepGroup {
  type: "sequential" | "parallel" | "next";
  steps: Step[];
}

export interface Run {
  workflowRunId: string;
  workflowUrl: string;
  workflowState: RunState;
  workflowRunCreatedAt: number;
  workflowRunCompletedAt?: number;
  workflowRunCallerIp?: string;
  workflowRunResponse?: string;
  dlqId?: string;
  flowControlKey?: string;
  labels?: string[];
  invoker?: RunRef;
  restartOf?: RunRef;
  resumeOf?: RunRef;
  successor?: RunRef;
  failureFunction?: { state: string; url: string; responseStatus?: number; failResponse: string; failStatus: number };
  steps: StepGroup[];
}

export interface RunPage {
  runs: Run[];
  cursor?: string;
}

export interface Queue {
  name: string;
  createdAt: number;
  updatedAt: number;
  parallelism: number;
  paused: boolean;
  lag: number;
}

export interface Schedule {
  scheduleId: string;
  cron: string;
  destination: string;
  method: string;
  createdAt: number;
  retries: number;
  isPaused: boolean;
  delay?: number; // seconds
  timeout?: number; // ms
  queueName?: string;
  callback?: string;
  failureCallback?: string;
  header?: Headers;
  body?: string;
  bodyBase64?: string;
  retryDelayExpression?: string;
  callbackHeader?: Headers;
  failureCallbackHeader?: Headers;
  labels?: string[];
  flowControlKey?: string;
  parallelism?: number;
  rate?: number;
  period?: number; // seconds
  lastScheduleTime?: number;
  nextScheduleTime?: number;
  lastScheduleStates?: Record<string, "IN_PROGRESS" | "SUCCESS" | "FAIL">;
  error?: string;
}

export interface Group {
  name: string;
  createdAt: number;
  updatedAt: number;
  endpoints: { name?: string; url: string }[];
}

export interface FlowKey {
  flowControlKey: string;
  waitListSize: number;
  parallelismMax: number;
  parallelismCount: number;
  rateMax: number;
  rateCount: number;
  ratePeriod: number; // seconds
  ratePeriodStart: number; // Unix seconds
  isPinnedParallelism: boolean;
  isPinnedRate: boolean;
  isPaused: boolean;
}

export interface Kept {
  entries: number;
  oldest?: number;
  bytes: number;
}

export interface Usage {
  log: Kept & { days: (Kept & { day: string })[] };
  deadLetters: Kept;
  failedRuns: Kept;
  runs: Kept;
}

export interface Server {
  version: string;
  user: string;
  retention: { log: number; deadLetters: number; runs: number; bytes: number }; // ms and bytes, 0 without a limit
  limits: Record<"body" | "batch" | "response" | "retries" | "delay" | "timeout" | "queues" | "parallelism" | "schedules", number>; // likewise
}
