// While a plugin is built its modules are evaluated, and there is no host to log to. Imported before everything else.

import { unhandled } from "./promise.js";
import { console } from "../src/console.js";
import { setHost } from "../src/host.js";
import { title } from "../src/show.js";
import { setParts } from "../src/stack.js";

const lines = [];

// It logs, and has nothing else that a host has.
setHost({
  maxLevel: () => "trace",
  emit(level, _, message, fields) {
    lines.push([`${level}:`, message, ...fields.map(([key, value]) => `${key}=${value}`)].join(" "));
  },
});

// What ends the evaluation is told by its stack, which does not name the error in this engine.
const named = (error, sites) => [title(error), ...sites.map(frame)].join("\n");
const before = Error.prepareStackTrace;
Error.prepareStackTrace = named;

function frame(site) {
  const place = site.isNative() ? "native" : `${site.getFileName()}:${site.getLineNumber()}:${site.getColumnNumber()}`;
  return `    at ${site.getFunctionName() || "<anonymous>"} (${place})`;
}

/** JSON without the two ends of a line that it leaves as they are. */
function onOneLine(value) {
  return JSON.stringify(value).replace(/[\u2028\u2029]/g, (end) => `\\u${end.charCodeAt(0).toString(16)}`);
}

/**
 * The last thing that is done while a plugin is built, by what build.mjs puts behind the bundle. Nothing but an error
 * leaves the evaluation, so what was logged does as one: build.mjs prints it, and asks once more with `isTold`.
 */
globalThis.leaseholdLoaded = (parts, isTold) => {
  for (const error of unhandled()) console.error("a promise was rejected, and nothing handles it:", error);
  if (!isTold && lines.length > 0) throw new Error(`leasehold logged: ${onOneLine(lines)}`);
  setParts(parts);
  lines.length = 0;
  if (Error.prepareStackTrace === named) Error.prepareStackTrace = before;
  delete globalThis.leaseholdLoaded;
};
