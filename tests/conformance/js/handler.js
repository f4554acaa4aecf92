// The same checks as in every other language: tests/tests/languages.rs says what each must answer.

import { Cancelled, HttpError, Permanent, Retryable, handler } from "leasehold";

const checks = {
  echo,
  facts,
  fail,
  crash,
  log,
  poll,
  sleep,
  state,
  kv,
  "kv-bytes": kvBytes,
  config,
  http,
  "http-bytes": httpBytes,
};
const everyByte = Uint8Array.from({ length: 256 }, (_, i) => i);

export default handler(conform, { input: "bytes" });

function conform(ctx, payload) {
  const asked = read(payload);
  const check = checks[asked?.check];
  if (!check) throw new Permanent("no-such-check", `there is no check ${JSON.stringify(asked?.check)}`);
  return check(ctx, asked);
}

// What is no JSON comes back as it is.
function read(payload) {
  try {
    return JSON.parse(new TextDecoder().decode(payload));
  } catch {
    return { check: "echo" };
  }
}

function echo(ctx) {
  return ctx.payload;
}

function facts(ctx) {
  const { tenant, job, attempt, reason, id, fence, slotMs } = ctx.run;
  const key = ctx.idempotencyKey("charge-42");
  return { tenant, job, attempt, reason, run_id: id, fence, slot_ms: slotMs, key };
}

function fail(_, { kind, code, message, details }) {
  if (kind === "cancelled") throw new Cancelled();
  throw new { permanent: Permanent, retryable: Retryable }[kind](code, message, { details });
}

function crash() {
  throw new Error("crash on purpose");
}

function log() {
  for (const level of ["trace", "debug", "info", "warn", "error"]) {
    console[level](`line at ${level}: grüße`, { n: 7, s: "späß" });
  }
}

async function poll(ctx) {
  while (!ctx.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 1));
  return { stopped: ctx.signal.reason.reason };
}

function sleep(ctx, { ms }) {
  try {
    ctx.sleep(ms);
    return { slept: true, reason: null };
  } catch (error) {
    if (!(error instanceof Cancelled)) throw error;
    return { slept: false, reason: error.reason };
  }
}

function state(ctx) {
  const saved = ctx.state.load();
  if (saved) return saved;
  ctx.state.save({ from: ctx.run.attempt });
  console.info("saved");
  for (;;) ctx.sleep(1000);
}

function kv({ kv }) {
  kv.set("conf/a", "1");
  return {
    get: kv.getText("conf/a"),
    cas_wrong: kv.compareAndSet("conf/a", "0", "2"),
    cas_right: kv.compareAndSet("conf/a", "1", "2"),
    keys: kv.list({ prefix: "conf/" }),
    deleted: kv.delete("conf/a"),
    after: kv.get("conf/a"),
  };
}

function kvBytes({ kv }) {
  const key = "conf/b";
  return {
    new: kv.compareAndSet(key, null, ""),
    empty: kv.getText(key),
    present: kv.compareAndSet(key, null, "x"),
    filled: kv.compareAndSet(key, "", everyByte),
    bytes: [...kv.get(key)],
  };
}

function config(ctx, { key }) {
  return ctx.config.get(key);
}

async function http(ctx, { url, ...init }) {
  try {
    const response = await fetch(url, init);
    return { status: response.status, body: await response.text(), header: response.headers.get("x-reply") };
  } catch (error) {
    if (error instanceof HttpError) throw new Permanent(`http-${error.case}`, error.message);
    throw error;
  }
}

async function httpBytes(_, { url }) {
  const headers = [
    ["x-tag", "a"],
    ["x-tag", "b"],
  ];
  const response = await fetch(url, { method: "POST", headers, body: everyByte });
  return [...(await response.bytes())];
}
