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

test("details become text that has a form in UTF-8", () => {
  const told = outcome(new Retryable("c", "\ud800", { details: { port: 70000, list: [1] } }));
  assert.deepEqual(told, { kind: "retryable", code: "c", message: "\ufffd", details: { port: "70000", list: "[1]" } });
  assert.equal(outcome(new Permanent("c", "m")).kind, "permanent");
  assert.equal(new Cancelled("lost").reason, "lost");
});
