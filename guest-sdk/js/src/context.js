// What a handler is given beside its input: the run, the signal, and what the host keeps and knows.

import { bytes, toJson } from "./data.js";
import { Cancelled, StorageError } from "./errors.js";
import { host } from "./host.js";
import { wellFormed } from "./show.js";

export class Context {
  constructor(info, payload) {
    this.run = Object.freeze({
      id: info.runId,
      tenant: info.tenant,
      job: info.job,
      slot: new Date(Number(info.slotMs)),
      slotMs: Number(info.slotMs),
      attempt: info.attempt,
      maxAttempts: info.maxAttempts,
      fence: Number(info.fence),
      reason: info.reason,
      metadata: Object.freeze(Object.fromEntries(info.metadata)),
    });
    this.payload = payload;
    this.signal = new Signal();
    this.state = state;
    this.kv = kv;
    this.config = config;
  }

  /** Waits. Throws `Cancelled`, at once, when the attempt must stop before the time is over. */
  sleep(ms) {
    // Rounded up, so that nobody waits for less than was asked.
    if (!host().sleep(Math.ceil(notNegative(ms, "ms")))) this.signal.throwAborted();
  }

  progress(done, total = null, message = "") {
    const most = total === null ? undefined : whole(total, "total");
    host().progress(whole(done, "done"), most, wellFormed(message));
  }

  idempotencyKey(operation) {
    return host().idempotencyKey(wellFormed(operation));
  }
}

/** The host's signal in the manner of an AbortSignal. It is asked for, so listeners hear of it when somebody asks. */
class Signal {
  #listeners = new Map();
  #told = false;
  onabort = null;

  get aborted() {
    if (host().shouldContinue()) return false;
    this.#tell();
    return true;
  }

  get reason() {
    return this.aborted ? new Cancelled(host().stopReason() ?? null) : undefined;
  }

  /** Milliseconds until the host interrupts the attempt by force; null where that is not known. */
  get remainingMs() {
    const remaining = host().remainingMs();
    return remaining === undefined || remaining === null ? null : Number(remaining);
  }

  throwIfAborted() {
    if (this.aborted) this.throwAborted();
  }

  /** For whoever was told in another way that the attempt must stop. */
  throwAborted() {
    this.#tell();
    throw new Cancelled(host().stopReason() ?? null);
  }

  addEventListener(type, listener) {
    if (type === "abort" && listener) this.#listeners.set(listener, true);
  }

  removeEventListener(type, listener) {
    if (type === "abort") this.#listeners.delete(listener);
  }

  #tell() {
    if (this.#told) return;
    this.#told = true;
    const event = { type: "abort", target: this };
    if (typeof this.onabort === "function") this.onabort(event);
    for (const listener of this.#listeners.keys()) {
      if (typeof listener === "function") listener.call(this, event);
      else listener.handleEvent(event);
    }
  }
}

/** The run's checkpoint, as JSON; `loadBytes` and `saveBytes` keep it as it is. */
const state = Object.freeze({
  load() {
    const bytes = state.loadBytes();
    return bytes === null ? null : JSON.parse(new TextDecoder().decode(bytes));
  },
  save(value) {
    state.saveBytes(toJson(value));
  },
  loadBytes() {
    return stored(() => host().stateLoad()) ?? null;
  },
  saveBytes(data) {
    stored(() => host().stateSave(bytes(data)));
  },
});

/** The tenant's key-value space. Values are bytes; a string is kept as UTF-8. */
const kv = Object.freeze({
  get(key) {
    return stored(() => host().kvGet(wellFormed(key))) ?? null;
  },
  getText(key) {
    const value = kv.get(key);
    return value === null ? null : new TextDecoder().decode(value);
  },
  set(key, value) {
    stored(() => host().kvSet(wellFormed(key), bytes(value)));
  },
  delete(key) {
    return stored(() => host().kvDelete(wellFormed(key)));
  },
  list({ prefix = "", after = null, limit = 1000 } = {}) {
    const from = after === null ? undefined : wellFormed(after);
    const most = Math.min(whole(limit, "limit"), 1000);
    return stored(() => host().kvList(wellFormed(prefix), from, most));
  },
  compareAndSet(key, expected, value) {
    const present = expected === null || expected === undefined ? undefined : bytes(expected);
    return stored(() => host().kvCompareAndSet(wellFormed(key), present, bytes(value)));
  },
});

const config = Object.freeze({
  get(key) {
    return host().config(wellFormed(key)) ?? null;
  },
});

function stored(operation) {
  try {
    return operation();
  } catch (error) {
    throw typeof error?.tag === "string" ? new StorageError(error) : error;
  }
}

function whole(value, name) {
  return Math.floor(notNegative(typeof value === "bigint" ? Number(value) : value, name));
}

/** At most what a number counts exactly. */
function notNegative(value, name) {
  if (typeof value !== "number" || Number.isNaN(value) || value < 0) {
    throw new RangeError(`${name}: ${String(value)} must be a number that is not negative`);
  }
  return Math.min(value, Number.MAX_SAFE_INTEGER);
}
