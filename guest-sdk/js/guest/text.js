// UTF-8, which this engine has no classes for. The work is done by what it has in native code.

import { bytesIn } from "../src/data.js";

export class TextEncoder {
  get encoding() {
    return "utf-8";
  }

  encode(text = "") {
    // A byte of UTF-8 for each character.
    const units = unescape(encodeURIComponent(String(text).toWellFormed()));
    const bytes = new Uint8Array(units.length);
    for (let at = 0; at < units.length; at += 1) bytes[at] = units.charCodeAt(at);
    return bytes;
  }
}

export class TextDecoder {
  #fatal;
  #keepsMark;

  constructor(label = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
    if (!/^(utf-?8|unicode-1-1-utf-8)$/i.test(label)) throw new RangeError(`${label}: only UTF-8 can be decoded here`);
    this.#fatal = fatal;
    this.#keepsMark = ignoreBOM;
  }

  get encoding() {
    return "utf-8";
  }

  decode(data = new Uint8Array(0), { stream = false } = {}) {
    if (stream) throw new TypeError("only whole texts can be decoded here, and no streams");
    const bytes = bytesIn(data);
    if (!bytes) throw new TypeError("must be an ArrayBuffer, or a view of one such as Uint8Array");
    let text;
    const units = characters(bytes);
    try {
      text = decodeURIComponent(escape(units));
    } catch (error) {
      if (this.#fatal) throw new TypeError("the bytes are not UTF-8");
      text = decodeLossily(units);
    }
    return text.startsWith("\ufeff") && !this.#keepsMark ? text.slice(1) : text;
  }
}

/** A character for each byte. */
function characters(bytes) {
  const parts = [];
  // As many as fit on the engine's stack.
  for (let at = 0; at < bytes.length; at += 4096) {
    parts.push(String.fromCharCode.apply(null, bytes.subarray(at, at + 4096)));
  }
  return parts.join("");
}

/** Each longest piece that cannot be the beginning of a character becomes one U+FFFD. */
function decodeLossily(units) {
  const sequence =
    /[\x00-\x7f]+|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}|(\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f]|\xf0[\x90-\xbf][\x80-\xbf]?|[\xf1-\xf3][\x80-\xbf]{1,2}|\xf4[\x80-\x8f][\x80-\xbf]?|[^])/g;
  return units.replace(sequence, (whole, broken) => (broken === undefined ? decodeURIComponent(escape(whole)) : "\ufffd"));
}
