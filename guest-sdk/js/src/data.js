// What is kept and sent: bytes, text, JSON.

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

/** A value's JSON. Throws a TypeError for what JSON knows nothing of, and would leave empty without a word. */
export function toJson(value) {
  return JSON.stringify(value, refused) ?? "null";
}

function refused(key, value) {
  if (typeof value !== "object" || value === null) return value;
  const isEmptied = value instanceof Map || value instanceof Set || typeof value.then === "function";
  if (isEmptied || ArrayBuffer.isView(value) || value instanceof ArrayBuffer) {
    const place = key === "" ? "" : ` (in ${JSON.stringify(key)})`;
    throw new TypeError(`JSON knows no ${value.constructor?.name ?? "promise"}${place}`);
  }
  return value;
}
