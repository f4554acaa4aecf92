// Values as text for people: in an error's details, in lines of the log.

/** How many errors are told of one that has causes, or holds others. */
const ERRORS = 8;
/** Of how many elements an array of numbers is told as a whole. */
const ELEMENTS = 64;

/** As a string that has a form in UTF-8: a lone surrogate has none. */
export function wellFormed(value) {
  return text(value).toWellFormed();
}

/** An object as JSON, with something in place of what JSON has no form for; anything else as the language says it. */
export function text(value) {
  if (value instanceof Error) return chain(value, title);
  if (typeof value !== "object" || value === null) return String(value);
  try {
    const json = JSON.stringify(value, shown()) ?? String(value);
    // What is a text by itself, as a date is, stands without quotes.
    return json.startsWith('"') ? JSON.parse(json) : json;
  } catch {
    return Object.prototype.toString.call(value);
  }
}

/** An error in a line: its name and its message. */
export function title(error) {
  return error.message ? `${error.name}: ${error.message}` : String(error.name);
}

/** An error by `show`, then by it what it was caused by, and what it holds, as an AggregateError does: the first few. */
export function chain(error, show, other = text) {
  const known = new Set();
  const told = [];
  const tell = (word, each) => {
    if (known.has(each) || known.size > ERRORS) return;
    known.add(each);
    const isError = each instanceof Error;
    if (known.size > ERRORS) told.push("and more");
    else told.push(word + (isError ? show(each) : other(each)));
    if (!isError) return;
    if (isThere(each.cause)) tell("caused by ", each.cause);
    for (const one of held(each)) tell("one of them ", one);
  };
  tell("", error);
  return told.join("\n");
}

/** The errors that one holds, as an AggregateError does. */
export function held(error) {
  return Array.isArray(error.errors) ? error.errors.filter(isThere) : [];
}

export function isThere(value) {
  return value !== undefined && value !== null;
}

/** A replacer for one call of JSON.stringify. */
function shown() {
  const around = [];
  return function (key, inJson) {
    while (around.length > 0 && around.at(-1) !== this) around.pop();
    const value = inForm(this[key], inJson);
    if (typeof value !== "object" || value === null) return value;
    if (around.includes(value)) return "[circular]";
    around.push(value);
    return value;
  };
}

/** What stands for a value; `inJson` is what its own `toJSON` made of it. */
function inForm(value, inJson) {
  // A cause that is an object may hold the error that it explains.
  if (value instanceof Error) return chain(value, title, named);
  if (value instanceof Date) return inJson ?? String(value);
  if (isObject(inJson)) return ofObject(inJson);
  if (typeof inJson === "function") return "[function]";
  const isKnown = typeof inJson !== "bigint" && typeof inJson !== "symbol" && !isOdd(inJson);
  return isKnown ? inJson : String(inJson);
}

/** Whether it is a number that JSON does not know. */
function isOdd(value) {
  return typeof value === "number" && !Number.isFinite(value);
}

function ofObject(value) {
  if (value instanceof Map) return Object.fromEntries([...value].map(([key, each]) => [text(key), each]));
  if (value instanceof Set) return [...value];
  if (value instanceof RegExp) return String(value);
  if (ArrayBuffer.isView(value) && value.length <= ELEMENTS) return [...value];
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `${named(value)} of ${value.byteLength} bytes`;
  return typeof value.then === "function" ? "[promise]" : value;
}

function named(value) {
  return isObject(value) ? `[${value.constructor?.name ?? "object"}]` : String(value);
}

function isObject(value) {
  return typeof value === "object" && value !== null;
}

/** Whether it is an object that is written as one, and not of a class. */
export function isPlain(value) {
  if (!isObject(value)) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
