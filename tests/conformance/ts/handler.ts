// The same checks as in every other language: tests/tests/languages.rs says what each must answer.

import { Cancelled, type Context, HttpError, Permanent, type RequestOptions, Retryable, handler } from "leasehold";

/** What a check is asked for, told apart by its name. */
type Asked =
  | { check: "echo" | "facts" | "crash" | "log" | "poll" | "state" | "kv" | "kv-bytes" }
  | Failure
  | { check: "sleep"; ms: number }
  | { check: "config"; key: string }
  | HttpRequest
  | { check: "http-bytes"; url: string };

interface Failure {
  check: "fail";
  kind: "permanent" | "retryable" | "cancelled";
  code: string;
  message: string;
  details?: Record<string, unknown>;
}

interface HttpRequest extends RequestOptions {
  check: "http";
  url: string;
}

/** What a run of the check `state` leaves for the next attempt. */
interface Checkpoint {
  from: number;
}

const everyByte = Uint8Array.from({ length: 256 }, (_, i) => i);

export default handler(conform, { input: "bytes" });

// What is no JSON comes back as it is.
function read(payload: Uint8Array): Asked {
  try {
    return JSON.parse(new TextDecoder().decode(payload));
  } catch {
    return { check: "echo" };
  }
}

function conform(ctx: Context, payload: Uint8Array): unknown {
  const asked = read(payload);
  switch (asked.check) {
    case "echo":
      return ctx.payload;
    case "facts":
      return facts(ctx);
    case "fail":
      return fail(asked);
    case "crash":
      throw new Error("crash on purpose");
    case "log":
      return log();
    case "poll":
      return poll(ctx);
    case "sleep":
      return sleep(ctx, asked.ms);
    case "state":
      return state(ctx);
    case "kv":
      return kv(ctx);
    case "kv-bytes":
      return kvBytes(ctx);
    case "config":
      return ctx.config.get(asked.key);
    case "http":
      return http(asked);
    case "http-bytes":
      return httpBytes(asked.url);
    default:
      // The types say that nothing is left, and payloads know no types.
      throw new Permanent("no-such-check", `there is no check ${JSON.stringify(asked satisfies never)}`);
  }
}

function facts(ctx: Context) {
  const { tenant, job, attempt, reason, id, fence, slot } = ctx.run;
  const key = ctx.idempotencyKey("charge-42");
  return { tenant, job, attempt, reason, run_id: id, fence, slot_ms: slot.getTime(), key };
}

function fail({ kind, code, message, details }: Failure): never {
  switch (kind) {
    case "permanent":
      throw new Permanent(code, message, { details });
    case "retryable":
      throw new Retryable(code, message, { details });
    case "cancelled":
      throw new Cancelled();
  }
}

function log(): void {
  const fields = { n: 7, s: "späß" };
  console.trace("line at trace: grüße", fields);
  console.debug("line at debug: grüße", fields);
  console.info("line at info: grüße", fields);
  console.warn("line at warn: grüße", fields);
  console.error("line at error: grüße", fields);
}

async function poll({ signal }: Context) {
  let heard: string | null = null;
  signal.addEventListener("abort", ({ target }) => {
    heard = target.reason?.reason ?? null;
  });
  // Whoever asks lets listeners hear of it.
  while (!signal.aborted) await new Promise<void>((resolve) => setTimeout(resolve, 1));
  return { stopped: heard };
}

function sleep(ctx: Context, ms: number) {
  try {
    ctx.sleep(ms);
    return { slept: true, reason: null };
  } catch (error) {
    if (!(error instanceof Cancelled)) throw error;
    return { slept: false, reason: error.reason };
  }
}

function state(ctx: Context): Checkpoint {
  const saved = ctx.state.load<Checkpoint>();
  if (saved) return saved;
  ctx.state.save({ from: ctx.run.attempt } satisfies Checkpoint);
  console.info("saved");
  for (;;) ctx.sleep(1000);
}

function kv({ kv }: Context) {
  kv.set("conf/a", new TextEncoder().encode("1"));
  return {
    get: kv.getText("conf/a"),
    cas_wrong: kv.compareAndSet("conf/a", "0", "2"),
    cas_right: kv.compareAndSet("conf/a", "1", "2"),
    keys: kv.list({ prefix: "conf/" }),
    deleted: kv.delete("conf/a"),
    after: kv.get("conf/a"),
  };
}

function kvBytes({ kv }: Context) {
  const key = "conf/b";
  return {
    new: kv.compareAndSet(key, null, ""),
    empty: kv.getText(key),
    present: kv.compareAndSet(key, null, "x"),
    filled: kv.compareAndSet(key, "", everyByte),
    bytes: [...(kv.get(key) ?? [])],
  };
}

async function http({ url, ...options }: HttpRequest) {
  try {
    const response: Response = await fetch(url, options);
    return { status: response.status, body: await response.text(), header: response.headers.get("x-reply") };
  } catch (error) {
    if (error instanceof HttpError) throw new Permanent(`http-${error.case}`, error.message);
    throw error;
  }
}

async function httpBytes(url: string) {
  const headers: [string, string][] = [
    ["x-tag", "a"],
    ["x-tag", "b"],
  ];
  const response: Response = await fetch(url, { method: "POST", headers, body: everyByte });
  return [...(await response.bytes())];
}
