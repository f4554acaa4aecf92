// What a plugin brings along because its engine has none: Promise and timers, UTF-8.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as loop from "../guest/promise.js";
import * as own from "../guest/text.js";

const never = () => assert.fail("nothing to wait for");

test("a promise settles as the language says", () => {
  const { Promise } = loop;
  const order = [];
  const done = Promise.resolve(1)
    .then((value) => order.push(value) && Promise.reject(new Error("two")))
    .catch((error) => order.push(error.message))
    .finally(() => order.push("three"))
    .then(() => Promise.all([1, Promise.resolve(2), { then: (resolve) => resolve(3) }]));
  order.push("zero");
  assert.deepEqual(loop.settle(done, never), [1, 2, 3]);
  assert.deepEqual(order, ["zero", 1, "two", "three"]);
});

test("a rejection that nothing asks for is told, and no other", async () => {
  const { Promise } = loop;
  loop.unhandled();
  const lost = (text) => Promise.reject(new Error(text));
  const late = lost("late");
  const done = Promise.resolve().then(() => {
    lost("alone");
    Promise.resolve().then(() => lost("passed on"));
    Promise.race([lost("first"), lost("second")]).catch(() => {});
    late.catch(() => {});
  });
  loop.settle(done, never);
  assert.throws(() => loop.settle(lost("the handler's own"), never));
  assert.deepEqual(loop.unhandled().map(({ message }) => message), ["alone", "passed on"]);
  for (let n = 0; n < 100; n += 1) lost("many");
  assert.equal(loop.unhandled().length, 10);
  assert.deepEqual(loop.unhandled(), []);
});

test("reactions run in the order in which the language runs them", async () => {
  const story = (Promise, log) => {
    Promise.resolve().then(() => log.push("a")).then(() => log.push("c")).then(() => log.push("e"));
    return Promise.resolve().then(() => log.push("b")).then(() => log.push("d")).then(() => Promise.resolve(7));
  };
  const expected = [];
  const value = await story(Promise, expected);
  const log = [];
  assert.equal(loop.settle(story(loop.Promise, log), never), value);
  assert.deepEqual(log, expected);
});

test("all, any, race and allSettled choose as they should", () => {
  const { Promise } = loop;
  const fails = () => Promise.reject(new Error("no"));
  assert.throws(() => loop.settle(Promise.all([1, fails()]), never), /no/);
  assert.equal(loop.settle(Promise.any([fails(), 2]), never), 2);
  assert.throws(() => loop.settle(Promise.any([fails()]), never), (error) => error.errors[0].message === "no");
  assert.equal(loop.settle(Promise.race([new Promise(() => {}), 3]), never), 3);
  assert.deepEqual(loop.settle(Promise.allSettled([4, fails()]), never).map(({ status }) => status), ["fulfilled", "rejected"]);
  assert.deepEqual(loop.settle(Promise.all([]), never), []);
});

test("timers fire in the order they are due, and an early end of a wait makes them due", () => {
  const { Promise, setTimeout, clearTimer } = loop;
  const log = [];
  const waits = [];
  const done = new Promise((resolve) => {
    clearTimer(setTimeout(() => log.push("never"), 1));
    setTimeout(() => log.push("late") && resolve("done"), 60_000, "x");
    setTimeout((word) => log.push(word), 30_000, "early");
  });
  assert.equal(loop.settle(done, (ms) => waits.push(ms)), "done");
  assert.deepEqual(log, ["early", "late"]);
  assert.ok(waits[0] > 29_000 && waits[1] > 59_000, String(waits));
});

test("a promise that nothing can settle is an error and no endless wait", () => {
  assert.throws(() => loop.settle(new loop.Promise(() => {}), never), /nothing can settle/);
});

test("a long chain of promises runs to its end", () => {
  let chain = loop.Promise.resolve(0);
  for (let at = 0; at < 5000; at += 1) chain = chain.then((value) => value + 1);
  assert.equal(loop.settle(chain, never), 5000);
});

test("text is encoded and decoded as by the classes of the platform", () => {
  const [ours, theirs] = [new own.TextEncoder(), new TextEncoder()];
  for (const text of ["", "a", "grüße 😀\u0000", "\ud800x", "\ufeffmark", "ü".repeat(10_000)]) {
    assert.deepEqual(ours.encode(text), theirs.encode(text));
    assert.equal(new own.TextDecoder().decode(theirs.encode(text)), new TextDecoder().decode(theirs.encode(text)));
  }
});

test("bytes that are not UTF-8 are replaced as by the platform, or refused", () => {
  let seed = 7;
  const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 16;
  const tricky = [0x41, 0x80, 0xbf, 0xc0, 0xc2, 0xe0, 0xe1, 0xed, 0xa0, 0x9f, 0xf0, 0x90, 0xf4, 0x8f, 0xf5, 0xff];
  for (let round = 0; round < 3000; round += 1) {
    const bytes = Uint8Array.from({ length: 1 + (random() % 6) }, () => tricky[random() % tricky.length]);
    assert.equal(new own.TextDecoder().decode(bytes), new TextDecoder().decode(bytes), String(bytes));
  }
  assert.throws(() => new own.TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.of(0xff)), TypeError);
  assert.throws(() => new own.TextDecoder("latin1"), RangeError);
});
