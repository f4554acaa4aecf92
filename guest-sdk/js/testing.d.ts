import type { Data, Handler, Headers, StopReason } from "./index.js";

/** A request a handler made; the names of headers are in lower case. */
export interface SentRequest {
  method: string;
  url: string;
  headers: [string, string][];
  body: Uint8Array | undefined;
  timeoutMs: number | undefined;
}

/** What answers a request: 200 and nothing else where nothing else is said, or a `Response`. */
export type Answer =
  | { status?: number; headers?: Headers | Record<string, string> | Iterable<[string, string]>; body?: Data }
  | { status: number; headers: Iterable<[string, string]>; arrayBuffer(): Promise<ArrayBuffer> };

export interface TestRun {
  runId?: string;
  tenant?: string;
  job?: string;
  slotMs?: number;
  attempt?: number;
  maxAttempts?: number;
  fence?: number;
  reason?: string;
  metadata?: [string, string][];
}

/** One run and its host. It goes on until `stop` says otherwise, does not really wait, and keeps things in memory. */
export class TestHost {
  constructor(options?: TestRun & { config?: Record<string, string> });
  /** What the configuration has. */
  settings: Record<string, string>;
  /** The key-value space. */
  values: Map<string, Uint8Array>;
  /** The checkpoint. */
  saved: Uint8Array | null;
  /** What was logged. */
  lines: { level: string; target: string; message: string; fields: Record<string, string> }[];
  /** Each report of progress. */
  reports: { done: number; total: number | null; message: string }[];
  /** Each request. */
  requests: SentRequest[];
  /** For how long the handler has waited. */
  sleptMs: number;
  /** Answers requests, or throws `{ tag: "timeout" }` and the like; without it every origin is denied. */
  answer: ((request: SentRequest) => Answer | Promise<Answer>) | null;
  /** Calls a handler as the host does, and returns its output's JSON value. Bytes are passed as they are. */
  call<T = any>(handler: Handler, payload?: unknown): Promise<T>;
  /** As `call`, for the output's bytes. */
  callBytes(handler: Handler, payload?: unknown): Promise<Uint8Array>;
  /** The handler must stop, once it has asked, or waited, `after` more times. */
  stop(reason?: StopReason, after?: number): void;
}

/** What the host would be told about something that a handler threw. */
export function outcome(thrown: unknown): {
  kind: "retryable" | "permanent" | "cancelled";
  code?: string;
  message?: string;
  details?: Record<string, string>;
};
