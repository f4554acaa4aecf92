// A handler, and the way of one run through it: payload in, function, payload out.

import { bytesIn, toJson } from "./data.js";
import { Permanent } from "./errors.js";

const INPUTS = ["json", "text", "bytes"];

/**
 * Makes a handler of a function of a context and an input; it belongs in the module's default export.
 * `options.input` says what the function is given: the payload's JSON value (the default), its text or its bytes.
 */
export function handler(run, options = {}) {
  const input = options.input ?? "json";
  if (typeof run !== "function") throw new TypeError("handler() takes a function of a context and an input");
  if (!INPUTS.includes(input)) throw new TypeError(`input: ${String(input)} must be one of ${INPUTS.join(", ")}`);
  return { run, input };
}

/** Whether `value` is what `handler` returned. */
export function isHandler(value) {
  return typeof value?.run === "function" && INPUTS.includes(value.input);
}

/** Calls a handler as the host does: with its payload's bytes, for the output's. */
export async function call(plugin, context) {
  const input = read(context.payload, plugin.input);
  return write(await plugin.run(context, input));
}

function read(payload, kind) {
  if (kind === "bytes") return payload;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(payload);
    if (kind === "text") return text;
    // A run on demand without a payload has an empty one.
    return text === "" ? null : JSON.parse(text);
  } catch (error) {
    throw new Permanent("bad-input", `the payload is not ${kind === "json" ? "JSON" : "text"}: ${error.message}`);
  }
}

function write(output) {
  const bytes = bytesIn(output);
  if (bytes) return bytes;
  try {
    return new TextEncoder().encode(toJson(output));
  } catch (error) {
    throw new Permanent("bad-output", `the output has no form in JSON: ${error.message}`);
  }
}
