// Reads a web server's access log and says what is in it.
//
// The payload is the log itself, in the common or the combined log format, as `payload_file` hands it over. It may
// instead be a JSON object, { "log": "…", "pace_ms": 20 }: then the handler waits that long after each chunk of lines, so
// that it can be watched at work, and stopped or killed in the middle of it.

import { type Context, Permanent, handler } from "leasehold";

import { Counts } from "./summary.ts";

/** How many lines are read between two looks at the signal. */
const CHUNK = 200;

export default handler(report, { input: "bytes" });

function report(ctx: Context, payload: Uint8Array) {
  const { log, pace_ms } = read(payload);
  const lines = log.split("\n").filter((line) => /[^ \t\f\r]/.test(line));
  console.info("reading an access log", { lines: lines.length, attempt: ctx.run.attempt });

  const counts = new Counts();
  for (let at = 0; at < lines.length; at += CHUNK) {
    ctx.signal.throwIfAborted();
    for (const line of lines.slice(at, at + CHUNK)) counts.add(line);
    ctx.progress(counts.lines, lines.length, "lines read");
    if (pace_ms > 0) ctx.sleep(pace_ms);
  }
  if (counts.malformed > 0) {
    console.warn("some lines are not in the common or combined log format", { malformed: counts.malformed });
  }
  return counts.summary();
}

interface Request {
  log: string;
  pace_ms: number;
}

function read(payload: Uint8Array): Request {
  const log = new TextDecoder().decode(payload);
  // No line of an access log begins with a brace: its first field is a host name or an address.
  if (!log.trimStart().startsWith("{")) return { log, pace_ms: 0 };
  try {
    const request = { pace_ms: 0, ...JSON.parse(log) };
    const unknown = Object.keys(request).filter((key) => key !== "log" && key !== "pace_ms");
    if (unknown.length > 0) throw new TypeError(`unknown key ${unknown[0]}`);
    if (typeof request.log !== "string") throw new TypeError("log must be a text");
    if (!Number.isSafeInteger(request.pace_ms) || request.pace_ms < 0) throw new TypeError("pace_ms must be a number");
    return request;
  } catch (error) {
    throw new Permanent("bad-input", `the payload is neither an access log nor a request: ${(error as Error).message}`);
  }
}
