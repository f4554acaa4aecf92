/** What a handler returns: an ArrayBuffer, or a view of one, as the bytes it holds, anything else as JSON. */
export type Output = unknown;

/** A handler, for a module's default export. */
export interface Handler {
  readonly run: (ctx: Context, input: never) => unknown;
  readonly input: "json" | "text" | "bytes";
}

/** Makes a handler of a function that takes the payload's JSON value; the type is what you expect of it. */
export function handler<Input>(
  run: (ctx: Context, input: Input) => Output | Promise<Output>,
  options?: { input?: "json" },
): Handler;
/** Makes a handler of a function that takes the payload's bytes. */
export function handler(
  run: (ctx: Context, input: Uint8Array) => Output | Promise<Output>,
  options: { input: "bytes" },
): Handler;
/** Makes a handler of a function that takes the payload's text. */
export function handler(
  run: (ctx: Context, input: string) => Output | Promise<Output>,
  options: { input: "text" },
): Handler;

export interface Context {
  readonly run: Run;
  /** The payload's bytes, whatever the handler takes as its input. */
  readonly payload: Uint8Array;
  readonly signal: Signal;
  readonly state: State;
  readonly kv: Kv;
  readonly config: Config;
  /** Waits. Throws `Cancelled`, at once, when the attempt must stop before the time is over. */
  sleep(ms: number): void;
  /** Says how far the run is. The newest report wins. */
  progress(done: number, total?: number | null, message?: string): void;
  /** A key for one named operation of this run, the same in every attempt. */
  idempotencyKey(operation: string): string;
}

/** The run a handler was started for. */
export interface Run {
  /** Names the run across all its attempts. */
  readonly id: string;
  readonly tenant: string;
  readonly job: string;
  /** When the run was due. */
  readonly slot: Date;
  readonly slotMs: number;
  /** 1 for the first start; each takeover adds one. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Grows strictly from win to win of a job: for systems that can refuse the older of two writers. */
  readonly fence: number;
  /** schedule, catch-up, takeover or on-demand; more words may come. */
  readonly reason: string;
  readonly metadata: Readonly<Record<string, string>>;
}

export type StopReason = "lost" | "stopping" | "cancelled" | "deadline" | (string & {});

export interface StopEvent {
  readonly type: "abort";
  readonly target: Signal;
}

type StopListener = ((event: StopEvent) => void) | { handleEvent(event: StopEvent): void };

/** What an AbortSignal takes. A listener hears of the stop once, whatever is said here. */
type ListenerOptions = boolean | { once?: boolean; capture?: boolean; passive?: boolean };

/** The host's signal in the manner of an AbortSignal. Listeners hear of it when somebody asks or a wait is cut short. */
export interface Signal {
  readonly aborted: boolean;
  /** Why; undefined while `aborted` is false. */
  readonly reason: Cancelled | undefined;
  /** Milliseconds until the host interrupts the attempt by force; null where that is not known. */
  readonly remainingMs: number | null;
  onabort: ((event: StopEvent) => void) | null;
  throwIfAborted(): void;
  addEventListener(type: "abort", listener: StopListener, options?: ListenerOptions): void;
  removeEventListener(type: "abort", listener: StopListener, options?: ListenerOptions): void;
}

/** The run's checkpoint, of at most 1 MiB: what one attempt saves, the next one loads. */
export interface State {
  /** What was saved last, from JSON; null when nothing was. */
  load<T = unknown>(): T | null;
  /** Saves a value as JSON, which has no Map, Set or bytes. It is durable before this returns. */
  save(value: unknown): void;
  loadBytes(): Uint8Array | null;
  saveBytes(data: Data): void;
}

/** What can be kept and sent; a string as UTF-8. */
export type Data = string | ArrayBuffer | ArrayBufferView;

/** The tenant's key-value space, shared by all its jobs. */
export interface Kv {
  get(key: string): Uint8Array | null;
  getText(key: string): string | null;
  set(key: string, value: Data): void;
  /** False when there was none. */
  delete(key: string): boolean;
  /** Keys that begin with `prefix`, in the order of their bytes, after `after`; never more than 1000. */
  list(options?: { prefix?: string; after?: string | null; limit?: number }): string[];
  /** Sets a value if the present one is `expected` (null: if there is none). False when it is not. */
  compareAndSet(key: string, expected: Data | null, value: Data): boolean;
}

/** Settings the operator gave the tenant and the job's manifest asks for. */
export interface Config {
  /** A secret yields a placeholder, which the host replaces on its way to where it was granted for. */
  get(key: string): string | null;
}

export interface FailureOptions {
  /** Kept with the run, as text: at most 32 of 1 KiB. */
  details?: Record<string, unknown>;
  /** Its name and text become the detail `cause`, with those of its own causes and of what it holds. */
  cause?: unknown;
}

/** Something that may go better next time, such as an upstream that did not answer. */
export class Retryable extends Error {
  constructor(code: string, message: string, options?: FailureOptions);
  readonly code: string;
  readonly details: Record<string, unknown>;
}

/** Something that fails the same way every time, such as a payload that makes no sense. */
export class Permanent extends Error {
  constructor(code: string, message: string, options?: FailureOptions);
  readonly code: string;
  readonly details: Record<string, unknown>;
}

/** The handler stopped because the host asked it to. */
export class Cancelled extends Error {
  constructor(reason?: StopReason | null);
  readonly reason: StopReason | null;
}

/** Why the host did not keep or find something. */
export class StorageError extends Error {
  private constructor();
  readonly case: "lost" | "too-large" | "over-quota" | "unavailable" | "other";
  /** Bytes, for too-large and over-quota. */
  readonly limit: number | null;
}

/** Why there is no response. */
export class HttpError extends TypeError {
  private constructor();
  readonly case: "lost" | "uncertain" | "denied" | "invalid" | "unreachable" | "timeout" | "too-large" | "other";
  /** Bytes, for too-large. */
  readonly limit: number | null;
}

export interface RequestOptions {
  method?: string;
  headers?: Headers | Record<string, string> | Iterable<[string, string]>;
  body?: Data | null;
  /** Checked before the request; the host watches over it in any case. */
  signal?: Pick<Signal, "throwIfAborted">;
  /** For the whole of it; at most what remains of the attempt. */
  timeoutMs?: number;
}

/** Sends a request to an origin that the operator and the job's manifest both allow. Any status is a response. */
export function fetch(url: string | { toString(): string }, options?: RequestOptions): Promise<Response>;

/** Names in any case; more than one value of a name are joined with a comma. */
export class Headers implements Iterable<[string, string]> {
  constructor(init?: Headers | Record<string, string> | Iterable<[string, string]>);
  append(name: string, value: string): void;
  set(name: string, value: string): void;
  get(name: string): string | null;
  has(name: string): boolean;
  delete(name: string): void;
  forEach(callback: (value: string, name: string, headers: Headers) => void): void;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toJSON(): Record<string, string>;
}

/** A whole response. Its body may be read as often as wanted. */
export class Response {
  constructor(body?: Data | null, init?: { status?: number; headers?: Record<string, string>; url?: string });
  readonly status: number;
  readonly ok: boolean;
  readonly headers: Headers;
  readonly url: string;
  text(): Promise<string>;
  json<T = any>(): Promise<T>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}
