// What a plugin brings along because its engine has none: Promise and timers, UTF-8.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as loop from "../guest/promise.js";
import * as own from "../guest/text.js";
import { Cancelled } from "../index.js";

/** As a host whose attempt goes on, where there is nothing to wait for. */
const never = { wait: (ms) => ms === 0 || assert.fail("nothing to wait for"), stop: () => assert.fail("it goes on") };

/** The loop as a new attempt finds it. */
const attempt = () => import(`../guest/promise.js?${(attempts += 1)}`);
let attempts = 0;

/** As a host whose attempt must stop, from the given wait on; keeps what was waited for. */
function stops(after, waits = []) {
  const stop = () => {
    throw new Cancelled("lost");
  };
  return { wait: (ms) => waits.push(ms) <= after, stop };
}

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

test("timers fire in the order they are due, and are waited for", () => {
  const { Promise, setTimeout, clearTimer } = loop;
  const log = [];
  const waits = [];
  const done = new Promise((resolve) => {
    clearTimer(setTimeout(() => log.push("never"), 1));
    setTimeout(() => log.push("late") && resolve("done"), 60_000, "x");
    setTimeout((word) => log.push(word), 30_000, "early");
  });
  assert.equal(loop.settle(done, stops(2, waits)), "done");
  assert.deepEqual(log, ["early", "late"]);
  assert.ok(waits[0] > 29_000 && waits[1] > 59_000 && waits.length === 2, String(waits));
});

test("once the attempt must stop, a handler that polls sees it, or is ended at its next timer", async () => {
  const isLost = (error) => error instanceof Cancelled && error.reason === "lost";
  for (const ms of [5000, 0, Infinity]) {
    const { Promise, setTimeout, settle } = await attempt();
    let polls = 0;
    const poll = (isReady) => {
      polls += 1;
      assert.ok(polls < 100, "it spins");
      return isReady() ? "ready" : new Promise((resolve) => setTimeout(resolve, ms)).then(() => poll(isReady));
    };
    const waits = [];
    assert.throws(() => settle(poll(() => false), stops(3, waits)), isLost);
    assert.ok(waits.every(Number.isSafeInteger), String(waits));
    // The timer that was there when it had to stop was its fourth.
    assert.equal(polls, 5);
    assert.equal(settle(poll(() => polls === 10), stops(20)), "ready");
  }
});

test("once the attempt must stop, the timers that are there fire once, in their order, and no interval does", async () => {
  for (const isEnd of [true, false]) {
    const { Promise, setTimeout, setInterval, clearTimer, settle } = await attempt();
    const log = [];
    const done = new Promise((resolve) => {
      setInterval(() => log.push("interval"), 1);
      setTimeout(() => log.push("late") && isEnd && resolve("done"), 60_000);
      setTimeout(() => log.push("early") && setTimeout(() => log.push("new"), 0), 30_000);
      clearTimer(setTimeout(() => log.push("never"), 1));
    });
    if (isEnd) assert.equal(settle(done, stops(0)), "done");
    else assert.throws(() => settle(done, stops(0)), Cancelled);
    assert.deepEqual(log, ["early", "late"]);
  }
});

test("who hears that the attempt must stop settles the handler before any timer fires", async () => {
  const { Promise, setTimeout, settle } = await attempt();
  const { promise, resolve } = Promise.withResolvers();
  const late = new Promise((fired) => setTimeout(fired, 60_000)).then(() => assert.fail("it fired"));
  assert.equal(settle(Promise.race([late, promise]), { ...stops(0), wait: () => resolve("heard") }), "heard");
});

test("a handler that nothing can settle any more has stopped, where it had to", () => {
  assert.throws(() => loop.settle(new loop.Promise(() => {}), stops(0)), Cancelled);
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
  const view = new DataView(Uint8Array.of(0x41, 0xc3, 0xbc).buffer, 1);
  assert.deepEqual([new own.TextDecoder().decode(view), new own.TextDecoder().decode(view.buffer)], ["ü", "Aü"]);
  assert.throws(() => new own.TextDecoder().decode(view, { stream: true }), TypeError);
  assert.throws(() => new own.TextDecoder().decode("ü"), TypeError);
});
