// What is kept and sent: bytes, text, JSON.

import { text } from "./show.js";

/** Bytes as they are, in whatever they are held; undefined for what holds none. */
export function bytesIn(value) {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}

/** Bytes as they are, a string as UTF-8. */
export function bytes(value) {
  const found = typeof value === "string" ? new TextEncoder().encode(value) : bytesIn(value);
  if (!found) throw new TypeError("must be a string, an ArrayBuffer, or a view of one such as Uint8Array");
  return found;
}

/** A value's JSON, with errors as text. Throws a TypeError for what else JSON would leave empty without a word. */
export function toJson(value) {
  return JSON.stringify(value, kept) ?? "null";
}

function kept(key, value) {
  if (typeof value !== "object" || value === null) return value;
  // An output may well tell what of it failed, as Promise.allSettled does.
  if (value instanceof Error) return text(value);
  const isEmptied = value instanceof Map || value instanceof Set || typeof value.then === "function";
  if (isEmptied || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    const place = key === "" ? "" : ` (in ${JSON.stringify(key)})`;
    throw new TypeError(`JSON knows no ${value.constructor?.name ?? "promise"}${place}`);
  }
  return value;
}
