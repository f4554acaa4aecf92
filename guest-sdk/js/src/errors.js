// How a handler fails, and what the host is told about it.

import { chain, held, isThere, text, title, wellFormed } from "./show.js";
import { located } from "./stack.js";

/** The base of the errors a handler throws to say how it failed. */
class Failure extends Error {
  constructor(kind, code, message, { details = {}, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
    this.code = String(code);
    this.details = { ...details };
  }
}

/** Something that may go better next time, such as an upstream that did not answer. */
export class Retryable extends Failure {
  name = "Retryable";
  constructor(code, message, options) {
    super("retryable", code, message, options);
  }
}

/** Something that fails the same way every time, such as a payload that makes no sense. */
export class Permanent extends Failure {
  name = "Permanent";
  constructor(code, message, options) {
    super("permanent", code, message, options);
  }
}

/** The handler stopped because the host asked it to; `reason` is the host's word for why, where it is known. */
export class Cancelled extends Failure {
  name = "Cancelled";
  constructor(reason = null) {
    super("cancelled", "cancelled", reason === null ? "asked to stop" : `asked to stop: ${reason}`);
    this.reason = reason;
  }
}

/** Why the host did not keep or find something: `case` is lost, too-large, over-quota, unavailable or other. */
export class StorageError extends Error {
  name = "StorageError";
  constructor({ tag, val }) {
    super(storageMessage(tag, val));
    this.case = tag;
    this.limit = tag === "too-large" || tag === "over-quota" ? Number(val) : null;
  }
}

/**
 * Why there is no response: `case` is lost, uncertain, denied, invalid, unreachable, timeout, too-large or other.
 * A TypeError, because that is what fetch throws elsewhere.
 */
export class HttpError extends TypeError {
  name = "HttpError";
  constructor({ tag, val }) {
    super(httpMessage(tag, val));
    this.case = tag;
    this.limit = tag === "too-large" ? Number(val) : null;
  }
}

/** What the host is told about anything that was thrown: a case of the contract's `handler-error`. */
export function toHandlerError(thrown) {
  const { kind, code, message, details, cause } = failure(thrown);
  if (kind === "cancelled") return { tag: "cancelled" };
  const isTold = isThere(cause) && details.cause === undefined;
  const all = isTold ? { ...details, cause: cut(chain(cause, title)) } : details;
  const pairs = Object.entries(all).map(([key, value]) => [wellFormed(key), wellFormed(value)]);
  return { tag: kind, val: { code: wellFormed(code), message: wellFormed(message), details: pairs } };
}

function failure(thrown) {
  if (thrown instanceof Failure) return thrown;
  if (thrown instanceof StorageError) return fromStorage(thrown);
  if (thrown instanceof HttpError) return fromHttp(thrown);
  return exception(thrown);
}

function fromStorage(error) {
  const { case: tag, message } = error;
  if (tag === "lost") return new Cancelled("lost");
  if (tag === "unavailable") return new Retryable("storage-unavailable", message);
  return new Permanent(tag === "other" ? "storage" : `storage-${tag}`, message);
}

function fromHttp(error) {
  const { case: tag, message } = error;
  if (tag === "lost") return new Cancelled("lost");
  if (tag === "denied" || tag === "invalid" || tag === "too-large") return new Permanent(`http-${tag}`, message);
  return new Retryable(tag === "other" ? "http" : `http-${tag}`, message);
}

/** Nobody caught it. */
function exception(thrown) {
  const isError = thrown instanceof Error;
  const message = isError ? title(thrown) : `thrown: ${text(thrown)}`;
  const stack = isError ? located(String(thrown.stack ?? "")) : "";
  const errors = isError ? held(thrown).map((one) => chain(one, title)) : [];
  const details = {
    ...(stack !== "" && { stack: cut(stack) }),
    ...(errors.length > 0 && { errors: cut(errors.join("\n")) }),
  };
  return new Permanent("exception", cut(message), { details, cause: isError ? thrown.cause : undefined });
}

/** At most 1 KiB of UTF-8, whole characters. */
function cut(long) {
  const bytes = new TextEncoder().encode(long);
  if (bytes.length <= 1024) return long;
  let end = 1024;
  while ((bytes[end] & 0xc0) === 0x80) end -= 1;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

function storageMessage(tag, val) {
  switch (tag) {
    case "lost":
      return "this attempt has lost its run";
    case "too-large":
      return `it is larger than the ${val} bytes allowed`;
    case "over-quota":
      return `the tenant would keep more than the ${val} bytes it may`;
    case "unavailable":
      return `the store is unavailable: ${val}`;
    default:
      return String(val);
  }
}

function httpMessage(tag, val) {
  switch (tag) {
    case "lost":
      return "this attempt has lost its run; nothing was sent";
    case "uncertain":
      return "the lease came into doubt before an answer: it may or may not have had its effect";
    case "timeout":
      return "no whole response in time";
    case "too-large":
      return `larger than the ${val} bytes allowed`;
    case "other":
      return String(val);
    default:
      return `${tag}: ${val}`;
  }
}
