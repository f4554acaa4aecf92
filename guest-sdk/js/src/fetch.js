// fetch over the host's requests: whole ones, answered with whole responses.

import { bytes } from "./data.js";
import { HttpError } from "./errors.js";
import { host } from "./host.js";
import { wellFormed } from "./show.js";

/**
 * Sends a request to an origin that the operator and the job's manifest both allow. Beside the usual `method`,
 * `headers`, `body` and `signal` it knows `timeoutMs`. Rejects with `HttpError`; any status is a response.
 */
export function fetch(resource, init = {}) {
  // Thrown at once, not to be missed: nobody waits for a promise while a plugin is built.
  if (!host().send) {
    throw new Error("fetch: a module is evaluated when its plugin is built, without a host: call it in the handler");
  }
  return exchange(resource, init);
}

async function exchange(resource, init) {
  init.signal?.throwIfAborted();
  const headers = new Headers(init.headers);
  const body = init.body ?? null;
  if (typeof body === "string" && !headers.has("content-type")) {
    headers.set("content-type", "text/plain;charset=UTF-8");
  }
  const url = wellFormed(String(resource));
  const request = {
    method: wellFormed(String(init.method ?? "GET").toUpperCase()),
    url,
    headers: [...headers],
    body: body === null ? undefined : bytes(body),
    timeoutMs: init.timeoutMs === undefined ? undefined : Math.max(0, Math.ceil(Number(init.timeoutMs))),
  };
  if (Number.isNaN(request.timeoutMs)) throw new RangeError(`timeoutMs: ${init.timeoutMs} is no number`);
  try {
    // Here already, but for the host of a test, which may take its time.
    const answer = await host().send(request);
    return new Response(answer.body, { status: answer.status, headers: answer.headers, url });
  } catch (error) {
    throw typeof error?.tag === "string" ? new HttpError(error) : error;
  }
}

/** Names in any case; more than one value of a name are joined with a comma. */
export class Headers {
  #values = new Map();

  constructor(init = []) {
    const pairs = Symbol.iterator in Object(init) ? init : Object.entries(init ?? {});
    for (const [name, value] of pairs) this.append(name, value);
  }

  append(name, value) {
    const before = this.get(name);
    this.set(name, before === null ? value : `${before}, ${value}`);
  }

  set(name, value) {
    this.#values.set(key(name), wellFormed(value).trim());
  }

  get(name) {
    return this.#values.get(key(name)) ?? null;
  }

  has(name) {
    return this.#values.has(key(name));
  }

  delete(name) {
    this.#values.delete(key(name));
  }

  forEach(callback) {
    for (const [name, value] of this) callback(value, name, this);
  }

  keys() {
    return this.#values.keys();
  }

  values() {
    return this.#values.values();
  }

  entries() {
    return this.#values.entries();
  }

  [Symbol.iterator]() {
    return this.#values.entries();
  }

  /** For logs: JSON would find nothing in it. */
  toJSON() {
    return Object.fromEntries(this);
  }
}

/** A whole response. Its body may be read as often as wanted. */
export class Response {
  #body;

  constructor(body = null, { status = 200, headers = [], url = "" } = {}) {
    this.#body = body === null ? new Uint8Array(0) : bytes(body);
    this.status = status;
    this.headers = headers instanceof Headers ? headers : new Headers(headers);
    this.url = url;
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  async bytes() {
    return this.#body.slice();
  }

  async arrayBuffer() {
    return this.#body.slice().buffer;
  }

  async text() {
    return new TextDecoder().decode(this.#body);
  }

  async json() {
    return JSON.parse(await this.text());
  }
}

function key(name) {
  return wellFormed(String(name)).toLowerCase();
}
