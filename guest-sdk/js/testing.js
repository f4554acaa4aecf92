// For the unit tests of a handler: a host that does as it is told.

import { console as logging } from "./src/console.js";
import { Context } from "./src/context.js";
import { bytes, bytesIn, toJson } from "./src/data.js";
import { toHandlerError } from "./src/errors.js";
import { Headers, Response, fetch } from "./src/fetch.js";
import { call } from "./src/handler.js";
import { setHost } from "./src/host.js";

/** One run and its host. It goes on until `stop` says otherwise, does not really wait, and keeps things in memory. */
export class TestHost {
  #stop = null;
  /** What is wrong with an answer. */
  #mistake = null;

  constructor({ config = {}, ...run } = {}) {
    const slotMs = 1_735_689_600_000;
    this.run = {
      runId: "test-run",
      tenant: "test",
      job: "job",
      slotMs,
      attempt: 1,
      maxAttempts: 3,
      fence: slotMs * 1024 + 1,
      reason: "schedule",
      metadata: [],
      ...run,
    };
    this.settings = { ...config };
    this.values = new Map();
    this.saved = null;
    this.lines = [];
    this.reports = [];
    this.requests = [];
    this.sleptMs = 0;
    /** Answers requests, and may be async; without it every origin is denied. */
    this.answer = null;
  }

  /** Calls a handler as the host does, and returns its output's JSON value. Bytes are passed as they are. */
  async call(plugin, payload = null) {
    return JSON.parse(new TextDecoder().decode(await this.callBytes(plugin, payload)));
  }

  /** As `call`, for the output's bytes. */
  async callBytes(plugin, payload = null) {
    const bytes = bytesIn(payload) ?? new TextEncoder().encode(toJson(payload));
    const globals = { fetch, Headers, Response, console: logging };
    const before = Object.fromEntries(Object.keys(globals).map((name) => [name, globalThis[name]]));
    const hostBefore = setHost(this);
    Object.assign(globalThis, globals);
    try {
      return await call(plugin, new Context(this.run, bytes));
    } finally {
      Object.assign(globalThis, before);
      setHost(hostBefore);
      // The handler may have caught it, and a test of how it fails would pass for another reason.
      if (this.#mistake) throw this.#mistake;
    }
  }

  /** The handler must stop, once it has asked, or waited, `after` more times. */
  stop(reason = "stopping", after = 0) {
    this.#stop = { reason, left: after };
  }

  shouldContinue() {
    if (!this.#stop) return true;
    if (this.#stop.left === 0) return false;
    this.#stop.left -= 1;
    return true;
  }

  stopReason() {
    return this.#stop?.left === 0 ? this.#stop.reason : null;
  }

  remainingMs() {
    return null;
  }

  sleep(ms) {
    const goesOn = this.shouldContinue();
    if (goesOn) this.sleptMs += ms;
    return goesOn;
  }

  idempotencyKey(operation) {
    return `${this.run.runId}/${operation}`;
  }

  maxLevel() {
    return "trace";
  }

  emit(level, target, message, fields) {
    this.lines.push({ level, target, message, fields: Object.fromEntries(fields) });
  }

  progress(done, total, message) {
    this.reports.push({ done, total: total ?? null, message });
  }

  stateLoad() {
    return this.saved;
  }

  stateSave(data) {
    this.saved = new Uint8Array(data);
  }

  kvGet(key) {
    return this.values.get(key)?.slice() ?? null;
  }

  kvSet(key, value) {
    this.values.set(key, new Uint8Array(value));
  }

  kvDelete(key) {
    return this.values.delete(key);
  }

  kvList(prefix, after, limit) {
    const order = [...this.values.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const isAfter = (key) => after === undefined || Buffer.compare(Buffer.from(key), Buffer.from(after)) > 0;
    return order.filter((key) => key.startsWith(prefix) && isAfter(key)).slice(0, limit);
  }

  kvCompareAndSet(key, expected, value) {
    const present = this.values.get(key);
    const same = expected === undefined || present === undefined ? expected === present : Buffer.compare(expected, present) === 0;
    if (same) this.kvSet(key, value);
    return same;
  }

  config(key) {
    return this.settings[key] ?? null;
  }

  async send(request) {
    this.requests.push(request);
    if (!this.answer) throw { tag: "denied", val: `${request.url} is not granted in this test: set \`answer\`` };
    const answer = await this.answer(request);
    return answered(answer).catch((error) => {
      this.#mistake = error;
      throw error;
    });
  }
}

/** What a test's answer says, be it a Response. Anything else would be taken for an empty one. */
async function answered(answer) {
  if (typeof answer?.arrayBuffer === "function") {
    const { status, headers } = answer;
    return { status, headers: [...headers], body: new Uint8Array(await answer.arrayBuffer()) };
  }
  const { status = 200, headers = {}, body = "", ...others } = answer;
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw new TypeError(`answer: ${unknown} is none of status, headers, body`);
  if (!Number.isInteger(status)) throw new TypeError(`answer: the status ${String(status)} must be a whole number`);
  return { status, headers: [...new Headers(headers)], body: bytes(body) };
}

/** What the host would be told about something that a handler threw: its kind, code, message and details. */
export function outcome(thrown) {
  const { tag, val } = toHandlerError(thrown);
  if (tag === "cancelled") return { kind: tag };
  return { kind: tag, code: val.code, message: val.message, details: Object.fromEntries(val.details) };
}
