// console, as lines of the run's log.

import { host } from "./host.js";
import { chain, title, wellFormed } from "./show.js";
import { located } from "./stack.js";

const LEVELS = ["trace", "debug", "info", "warn", "error"];

/** `console.info("text", …, { key: value })`: an object at the end, after a text, becomes the line's fields. */
export const console = {
  trace: (...args) => emit("trace", args),
  debug: (...args) => emit("debug", args),
  log: (...args) => emit("info", args),
  info: (...args) => emit("info", args),
  warn: (...args) => emit("warn", args),
  error: (...args) => emit("error", args),
  // What packages call as well. A log of lines has no groups and no tables.
  dir: (value) => emit("info", [value]),
  table: (value) => emit("info", [value]),
  group: (...args) => args.length > 0 && emit("info", args),
  groupEnd() {},
  assert: (holds, ...args) => holds || emit("error", ["assertion failed", ...args]),
};

function emit(level, args) {
  const to = host();
  if (LEVELS.indexOf(level) < LEVELS.indexOf(to.maxLevel())) return;
  const last = args.at(-1);
  const hasFields = args.length > 1 && typeof args[0] === "string" && isPlain(last);
  const fields = hasFields ? Object.entries(last).map(([key, value]) => [wellFormed(key), show(value)]) : [];
  const words = hasFields ? args.slice(0, -1) : args;
  to.emit(level, "console", words.map(show).join(" "), fields);
}

function show(value) {
  return located(wellFormed(value instanceof Error ? chain(value, described) : value));
}

/** Engines differ in whether a stack begins with the name and the message. */
function described(error) {
  const stack = String(error.stack ?? "");
  return stack.startsWith(title(error)) ? stack : `${title(error)}\n${stack}`;
}

function isPlain(value) {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
