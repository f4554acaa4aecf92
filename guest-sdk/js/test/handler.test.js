// A handler as the host calls it, and what becomes of what it throws.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Cancelled, HttpError, Permanent, Retryable, StorageError, handler } from "../index.js";
import { TestHost, outcome } from "../testing.js";

const same = handler((_, input) => input);

test("JSON goes in and comes out exact", async () => {
  for (const value of [null, 0, "grüße 😀\u0000\u2028", [1.5, { ä: [] }]]) {
    assert.deepEqual(await new TestHost().call(same, value), value);
  }
});

test("an empty payload is null, and nothing returned is null", async () => {
  assert.equal(await new TestHost().call(same, new Uint8Array(0)), null);
  assert.equal(await new TestHost().call(handler(() => undefined)), null);
});

test("bytes and text are given to who asks for them", async () => {
  const raw = handler((_, bytes) => bytes, { input: "bytes" });
  const text = handler((_, given) => given.toUpperCase(), { input: "text" });
  assert.deepEqual(await new TestHost().callBytes(raw, Uint8Array.of(0xff, 0)), Uint8Array.of(0xff, 0));
  assert.equal(await new TestHost().call(text, new TextEncoder().encode("grün")), "GRÜN");
  await assert.rejects(new TestHost().call(text, Uint8Array.of(0xff)), { code: "bad-input" });
});

test("bytes are the output in whatever they are held", async () => {
  const held = Uint8Array.of(9, 1, 0, 9).buffer;
  const views = [new DataView(held, 1, 2), new Uint16Array(held.slice(1, 3)), Buffer.from(held, 1, 2)];
  for (const output of [held.slice(1, 3), ...views]) {
    assert.deepEqual(Buffer.from(await new TestHost().callBytes(handler(() => output))), Buffer.of(1, 0));
  }
  const text = handler((_, given) => given, { input: "text" });
  assert.equal(await new TestHost().call(text, new TextEncoder().encode("ü").buffer), "ü");
});

test("what JSON would leave empty is refused, in an output and in a checkpoint", async () => {
  for (const [value, name] of [
    [new Map([[1, 2]]), "Map"],
    [[new Set([1])], "Set"],
    [{ body: Uint8Array.of(1) }, "Uint8Array"],
    [{ body: new ArrayBuffer(1) }, "ArrayBuffer"],
    [{ later: Promise.resolve(1) }, "Promise"],
  ]) {
    const host = new TestHost();
    const isTold = (error) => error.code === "bad-output" && error.message.includes(name);
    await assert.rejects(host.call(handler(() => value)), isTold);
    await assert.rejects(host.call(handler((ctx) => ctx.state.save(value))), TypeError);
    assert.equal(host.saved, null);
  }
  const settled = await new TestHost().call(handler(() => Promise.allSettled([1, Promise.reject(new RangeError("two"))])));
  assert.deepEqual(settled[1], { status: "rejected", reason: "RangeError: two" });
  const dated = { at: new Date(0), toJSON: () => ({ keys: [...new Map([["a", 1]])] }) };
  assert.deepEqual(await new TestHost().call(handler(() => dated)), { keys: [["a", 1]] });
});

test("what is not JSON is refused with its code", async () => {
  await assert.rejects(new TestHost().call(same, Uint8Array.of(0x7b)), { code: "bad-input" });
  const loop = {};
  loop.loop = loop;
  for (const output of [1n, loop]) {
    await assert.rejects(new TestHost().call(handler(() => output)), { code: "bad-output" });
  }
});

test("a megabyte comes back", async () => {
  const text = "ü".repeat(1 << 19);
  assert.equal(await new TestHost().call(same, text), text);
});

test("what is no function is no handler", () => {
  assert.throws(() => handler({}), TypeError);
  assert.throws(() => handler(() => 1, { input: "xml" }), /must be one of json, text, bytes/);
});

test("an error nobody caught is permanent with its text and its stack", () => {
  const told = outcome(new RangeError("7 is too many"));
  assert.deepEqual([told.kind, told.code, told.message], ["permanent", "exception", "RangeError: 7 is too many"]);
  assert.match(told.details.stack, /handler\.test\.js/);
  assert.equal(outcome({ odd: 1 }).message, 'thrown: {"odd":1}');
});

test("long errors are cut to whole characters of at most a kibibyte", () => {
  const told = outcome(new Error("ü".repeat(5000)));
  for (const text of [told.message, told.details.stack]) {
    const size = new TextEncoder().encode(text).length;
    assert.ok(size > 1000 && size <= 1024 && !text.includes("\ufffd"), text.slice(-3));
  }
});

test("the cause is a detail of at most a kibibyte, unless there is one of that name", () => {
  const cause = new TypeError("ü".repeat(5000));
  const { details } = outcome(new Retryable("busy", "again", { cause, details: { port: 7 } }));
  assert.ok(details.cause.startsWith("TypeError: ü") && details.port === "7", JSON.stringify(details));
  const size = new TextEncoder().encode(details.cause).length;
  assert.ok(size > 1000 && size <= 1024, String(size));
  assert.deepEqual(outcome(new Permanent("a", "b", { cause: "odd", details: { cause: "mine" } })).details, { cause: "mine" });
  assert.deepEqual(outcome(new Permanent("a", "b", { cause: { odd: 1 } })).details, { cause: '{"odd":1}' });
  assert.equal(outcome(new Error("outer", { cause: new Error("inner") })).details.cause, "Error: inner");
});

test("trouble with the host has a kind and a code", () => {
  assert.deepEqual(outcome(new StorageError({ tag: "lost" })), { kind: "cancelled" });
  assert.deepEqual(outcome(new HttpError({ tag: "lost" })), { kind: "cancelled" });
  for (const [error, kind, code] of [
    [new StorageError({ tag: "unavailable", val: "x" }), "retryable", "storage-unavailable"],
    [new StorageError({ tag: "over-quota", val: 7 }), "permanent", "storage-over-quota"],
    [new HttpError({ tag: "denied", val: "x" }), "permanent", "http-denied"],
    [new HttpError({ tag: "timeout" }), "retryable", "http-timeout"],
    [new HttpError({ tag: "other", val: "x" }), "retryable", "http"],
  ]) {
    const told = outcome(error);
    assert.deepEqual([told.kind, told.code], [kind, code]);
  }
});

test("what a detail is made of is told, however deep it lies", () => {
  const error = new TypeError("no route", { cause: new Error("cable") });
  const loop = { error };
  loop.self = loop;
  error.loop = loop;
  const { details } = outcome(
    new Retryable("c", "m", {
      details: {
        error,
        loop,
        deep: [{ error: new Error("a", { cause: loop }) }],
        map: new Map([["a", new Set([1n])]]),
        at: new Date(0),
        never: new Date(NaN),
        odd: { ratio: NaN, pattern: /a"b/, symbol: Symbol("a"), call: () => 1 },
        bytes: { few: Uint8Array.of(1, 2), many: new ArrayBuffer(1000), view: new DataView(new ArrayBuffer(2)) },
        later: { value: Promise.resolve() },
      },
    }),
  );
  assert.deepEqual(details, {
    error: "TypeError: no route\ncaused by Error: cable",
    loop: '{"error":"TypeError: no route\\ncaused by Error: cable","self":"[circular]"}',
    deep: '[{"error":"Error: a\\ncaused by [Object]"}]',
    map: '{"a":["1"]}',
    at: "1970-01-01T00:00:00.000Z",
    never: "Invalid Date",
    odd: '{"ratio":"NaN","pattern":"/a\\"b/","symbol":"Symbol(a)","call":"[function]"}',
    bytes: '{"few":[1,2],"many":"[ArrayBuffer] of 1000 bytes","view":"[DataView] of 2 bytes"}',
    later: '{"value":"[promise]"}',
  });
});

test("an error tells what it was caused by and what it holds, and of many the first", () => {
  const loop = new Error("loop");
  loop.cause = new RangeError("inner", { cause: loop });
  const all = new AggregateError([new Error("one"), "two", loop], "all failed");
  const told = "Error: one\ntwo\nError: loop\ncaused by RangeError: inner";
  assert.equal(outcome(all).details.errors, told);
  assert.equal(outcome(new AggregateError([])).details.errors, undefined);
  const { cause } = outcome(new Retryable("c", "m", { cause: all })).details;
  assert.equal(cause, `AggregateError: all failed\none of them ${told.replace("two\n", "one of them two\none of them ")}`);
  const many = new AggregateError(Array.from({ length: 1000 }, (_, n) => new Error(`no ${n}`)));
  const lines = outcome(new Error("outer", { cause: many })).details.cause.split("\n");
  assert.deepEqual([lines.length, lines.at(-2), lines.at(-1)], [9, "one of them Error: no 6", "and more"]);
  // A cause that holds the error it explains.
  const error = new Error("round");
  error.cause = { error };
  assert.equal(outcome(error).details.cause, '{"error":"Error: round\\ncaused by [Object]"}');
});

test("details become text that has a form in UTF-8", () => {
  const told = outcome(new Retryable("c", "\ud800", { details: { port: 70000, list: [1] } }));
  assert.deepEqual(told, { kind: "retryable", code: "c", message: "\ufffd", details: { port: "70000", list: "[1]" } });
  assert.equal(outcome(new Permanent("c", "m")).kind, "permanent");
  assert.equal(new Cancelled("lost").reason, "lost");
});
