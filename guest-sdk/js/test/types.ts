// Compiled, never run: what index.d.ts promises is what a handler in TypeScript can say.

import { Cancelled, HttpError, Permanent, Response, Retryable, fetch, handler } from "../index.js";
import { TestHost, outcome } from "../testing.js";

interface Order {
  id: number;
  items: string[];
}

export default handler<Order>(async (ctx, order) => {
  ctx.signal.throwIfAborted();
  ctx.signal.addEventListener("abort", (event) => void event.target.reason?.reason);
  const listener = () => console.count("stopped");
  ctx.signal.addEventListener("abort", listener, { once: true });
  ctx.signal.removeEventListener("abort", listener, { capture: true });
  // @ts-expect-error: a listener hears of it until it is removed
  ctx.signal.addEventListener("abort", listener, { signal: ctx.signal });
  ctx.kv.set("view", new DataView(new ArrayBuffer(1)));
  const saved = ctx.state.load<{ at: number }>();
  for (const item of order.items.slice(saved?.at ?? 0)) ctx.kv.set(`${order.id}/${item}`, new Uint8Array(1));
  const key = ctx.idempotencyKey("charge");
  const response = await fetch("https://api.example.com", { method: "POST", headers: { key }, timeoutMs: 10 });
  if (!response.ok) throw new Retryable("upstream", await response.text(), { details: { status: response.status } });
  // @ts-expect-error: a value is bytes or text
  ctx.kv.set("a", 1);
  return { keys: ctx.kv.list({ prefix: "a" }), slot: ctx.run.slot.toISOString() };
});

export const raw = handler((_, bytes) => bytes.slice(1), { input: "bytes" });
export const text = handler((_, given) => given.length, { input: "text" });

export async function test(): Promise<void> {
  const host = new TestHost({ attempt: 2, config: { A: "b" } });
  host.answer = (request) => ({ status: 200, body: request.url });
  host.answer = async () => new Response("", { status: 503 });
  // @ts-expect-error: a status has no other name
  host.answer = () => ({ statusCode: 503 });
  host.stop("deadline", 3);
  const answer = await host.call<{ keys: string[] }>(raw, { id: 1 });
  const error: unknown = new Cancelled();
  if (error instanceof HttpError && error.case === "timeout") throw new Permanent(outcome(error).kind, answer.keys[0] ?? "");
}
