// console, as lines of the run's log.

import { host } from "./host.js";
import { chain, isPlain, title, wellFormed } from "./show.js";
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
  dirxml: (...args) => emit("info", args),
  table: (value) => emit("info", [value]),
  group: (...args) => args.length > 0 && emit("info", args),
  groupCollapsed: (...args) => args.length > 0 && emit("info", args),
  groupEnd() {},
  clear() {},
  assert(holds, ...args) {
    if (holds) return;
    const [first, ...more] = args;
    emit("error", typeof first === "string" ? [`assertion failed: ${first}`, ...more] : ["assertion failed", ...args]);
  },
  count(label = "default") {
    const { counts } = kept();
    counts.set(label, (counts.get(label) ?? 0) + 1);
    emit("info", [`${label}: ${counts.get(label)}`]);
  },
  countReset: (label = "default") => kept().counts.delete(label),
  time: (label = "default") => kept().times.set(label, performance.now()),
  timeLog: (label = "default", ...args) => tellTime(label, args),
  timeEnd(label = "default") {
    tellTime(label, []);
    kept().times.delete(label);
  },
};

/** What is counted and timed, of each host: an attempt begins anew. */
const all = new WeakMap();

function kept() {
  if (!all.has(host())) all.set(host(), { counts: new Map(), times: new Map() });
  return all.get(host());
}

function tellTime(label, args) {
  const began = kept().times.get(label);
  if (began === undefined) emit("warn", [`${label}: no such timer`]);
  else emit("info", [`${label}: ${(performance.now() - began).toFixed(3)}ms`, ...args]);
}

function emit(level, args) {
  const to = host();
  if (LEVELS.indexOf(level) < LEVELS.indexOf(to.maxLevel())) return;
  const { words, rest } = substituted(args);
  const hasFields = typeof args[0] === "string" && isPlain(rest.at(-1));
  const fields = hasFields ? Object.entries(rest.pop()).map(([key, value]) => [wellFormed(key), show(value)]) : [];
  to.emit(level, "console", [...words, ...rest.map(show)].join(" "), fields);
}

/** The text at the beginning with what is put into it, and what is left behind it. */
function substituted(args) {
  const [text, ...rest] = args;
  if (typeof text !== "string") return { words: [], rest: [...args] };
  if (rest.length === 0) return { words: [show(text)], rest };
  const word = text.replace(/%([sdifjoOc%])/g, (whole, kind) => {
    if (kind === "%") return "%";
    // A line's fields are no number: the text may hold a URL, with %d0 in it.
    const isLeft = rest.length === 0 || ("difc".includes(kind) && isPlain(rest[0]));
    return isLeft ? whole : SUBSTITUTIONS[kind](rest.shift());
  });
  return { words: [show(word)], rest };
}

const SUBSTITUTIONS = {
  s: show,
  d: (value) => String(typeof value === "bigint" ? value : number(Number, value)),
  i: (value) => String(typeof value === "bigint" ? value : number(Number.parseInt, value)),
  f: (value) => String(number(Number.parseFloat, value)),
  j: (value) => (typeof value === "string" ? JSON.stringify(value) : show(value)),
  o: show,
  O: show,
  // A style, of which a line has none.
  c: () => "",
};

function number(parse, value) {
  return typeof value === "symbol" ? NaN : parse(value);
}

function show(value) {
  return located(wellFormed(value instanceof Error ? chain(value, described) : value));
}

/** Engines differ in whether a stack begins with the name and the message. */
function described(error) {
  const stack = located(String(error.stack ?? ""));
  return stack.startsWith(title(error)) ? stack : `${title(error)}\n${stack}`;
}
