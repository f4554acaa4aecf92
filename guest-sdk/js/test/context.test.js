// What a handler is given: the signal, waiting, the checkpoint, key-values, requests, console.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Cancelled, Headers, HttpError, Response, StorageError, fetch, handler } from "../index.js";
import { setParts } from "../src/stack.js";
import { TestHost } from "../testing.js";

// That of Node, which a handler does not find.
const Elsewhere = globalThis.Response;

test("a stopped run says why, tells listeners once and waits no more", async () => {
  const host = new TestHost();
  let told = 0;
  const run = handler((ctx) => {
    ctx.signal.throwIfAborted();
    assert.deepEqual([ctx.signal.aborted, ctx.signal.reason], [false, undefined]);
    ctx.signal.addEventListener("abort", () => (told += 1));
    host.stop("lost");
    assert.throws(() => ctx.sleep(3_600_000), (error) => error instanceof Cancelled && error.reason === "lost");
    assert.throws(() => ctx.signal.throwIfAborted(), Cancelled);
    return [ctx.signal.aborted, ctx.signal.reason.reason];
  });
  assert.deepEqual(await host.call(run), [true, "lost"]);
  assert.deepEqual([told, host.sleptMs], [1, 0]);
});

test("it stops after as many looks as the test wants", async () => {
  const host = new TestHost();
  host.stop("stopping", 2);
  const copy = handler((ctx, items) => {
    items.forEach((_, at) => {
      ctx.signal.throwIfAborted();
      ctx.progress(at + 1, items.length, "copied");
    });
  });
  await assert.rejects(host.call(copy, [1, 2, 3]), Cancelled);
  assert.deepEqual(host.reports.at(-1), { done: 2, total: 3, message: "copied" });
});

test("waits are rounded up and never negative", async () => {
  const host = new TestHost();
  await host.call(handler((ctx) => ctx.sleep(0.1)));
  assert.equal(host.sleptMs, 1);
  for (const ms of [-1, NaN, "1"]) {
    await assert.rejects(host.call(handler((ctx) => ctx.sleep(ms))), RangeError);
  }
});

test("the run's facts are there", async () => {
  const facts = await new TestHost({ attempt: 2 }).call(handler((ctx) => ctx.run));
  assert.deepEqual([facts.slot, facts.attempt, facts.tenant], ["2025-01-01T00:00:00.000Z", 2, "test"]);
});

test("a checkpoint comes back as it was saved", async () => {
  const host = new TestHost();
  assert.equal(await host.call(handler((ctx) => ctx.state.load())), null);
  await host.call(handler((ctx, value) => ctx.state.save(value)), { at: "ü" });
  assert.deepEqual(await host.call(handler((ctx) => ctx.state.load())), { at: "ü" });
});

test("keys are listed in order and compared", async () => {
  const run = handler(({ kv }) => {
    for (const key of ["b", "a/2", "a/1"]) kv.set(key, key);
    assert.deepEqual(kv.list({ prefix: "a/" }), ["a/1", "a/2"]);
    assert.deepEqual(kv.list({ prefix: "a/", after: "a/1" }), ["a/2"]);
    assert.equal(kv.compareAndSet("b", null, "x"), false);
    assert.equal(kv.compareAndSet("b", "b", "ü"), true);
    assert.equal(kv.getText("b"), "ü");
    assert.deepEqual([kv.delete("b"), kv.delete("b"), kv.get("b")], [true, false, null]);
    assert.throws(() => kv.set("a", 1), TypeError);
    kv.set("a/3", new Uint16Array(Uint8Array.of(1, 0).buffer));
    assert.deepEqual(kv.get("a/3"), Uint8Array.of(1, 0));
  });
  await new TestHost().call(run);
});

test("the store's trouble is a StorageError with its limit", async () => {
  const host = new TestHost();
  host.kvSet = () => {
    throw { tag: "over-quota", val: 7n };
  };
  const isQuota = (error) => error instanceof StorageError && error.case === "over-quota" && error.limit === 7;
  await assert.rejects(host.call(handler((ctx) => ctx.kv.set("a", "b"))), isQuota);
});

test("fetch sends what it is given, and any status is a response", async () => {
  const host = new TestHost();
  host.answer = () => ({ status: 404, headers: { "X-Reply": "a" }, body: '{"ü":1}' });
  const run = handler(async () => {
    const response = await fetch("https://a.example/x", { method: "post", body: "ü", headers: { "X-One": "1" } });
    const { status, ok, headers } = response;
    return [status, ok, headers.get("x-reply"), headers, await response.json()];
  });
  assert.deepEqual(await host.call(run), [404, false, "a", { "x-reply": "a" }, { ü: 1 }]);
  const [{ method, url, headers, body }] = host.requests;
  assert.deepEqual([method, url, new TextDecoder().decode(body)], ["POST", "https://a.example/x", "ü"]);
  assert.deepEqual(headers, [["x-one", "1"], ["content-type", "text/plain;charset=UTF-8"]]);
});

test("an answer may be async, and a Response", async () => {
  const host = new TestHost();
  const run = handler(async () => {
    const { status, headers } = await fetch("https://a.example/x").catch((error) => ({ status: error.case, headers: null }));
    return [status, headers];
  });
  const answers = [
    async () => ({ status: 503 }),
    () => new Response("no", { status: 503, headers: { "X-Reply": "a" } }),
    async () => new Elsewhere(Uint8Array.of(1), { status: 503, headers: [["x-reply", "a"]] }),
    () => ({ status: 503, headers: new Headers({ "X-Reply": "a" }), body: Uint8Array.of(1).buffer }),
    async () => {
      throw { tag: "timeout" };
    },
  ];
  const told = [];
  for (host.answer of answers) told.push(await host.call(run));
  const replied = [503, { "x-reply": "a" }];
  assert.deepEqual(told, [[503, {}], replied, replied, replied, ["timeout", null]]);
});

test("an answer that says nothing, or what nobody knows, fails the test whatever the handler makes of it", async () => {
  const run = handler(() => fetch("https://a.example/x").catch(() => "caught"));
  for (const answer of [{ statusCode: 503 }, { status: "503" }, { body: { a: 1 } }, undefined]) {
    const host = new TestHost();
    host.answer = () => answer;
    await assert.rejects(host.call(run), TypeError);
  }
});

test("without an answer nothing is granted, and the global fetch is this one", async () => {
  const isDenied = (error) => error instanceof HttpError && error instanceof TypeError && error.case === "denied";
  await assert.rejects(new TestHost().call(handler(() => globalThis.fetch("https://a.example"))), isDenied);
  assert.notEqual(globalThis.fetch, fetch);
});

test("console writes lines with their level and an object at the end as fields", async () => {
  const host = new TestHost();
  const run = handler(() => {
    console.log("grüße", 7, { n: 7, s: "späß", deep: [1] });
    console.warn({ a: 1 });
    console.error(new TypeError("why"));
  });
  await host.call(run);
  const [first, second, third] = host.lines;
  assert.deepEqual(first, { level: "info", target: "console", message: "grüße 7", fields: { n: "7", s: "späß", deep: "[1]" } });
  assert.deepEqual([second.level, second.message, second.fields], ["warn", '{"a":1}', {}]);
  assert.match(third.message, /TypeError: why/);
});

test("console has what packages call as well", async () => {
  const host = new TestHost();
  const run = handler(() => {
    console.group("of", 2);
    console.dir({ a: 1 });
    console.table([1]);
    console.groupEnd();
    console.assert(true, "not told");
    console.assert(false, "no cheese", { n: 7 });
  });
  await host.call(run);
  const told = host.lines.map(({ level, message, fields }) => [level, message, fields]);
  assert.deepEqual(told, [
    ["info", "of 2", {}],
    ["info", '{"a":1}', {}],
    ["info", "[1]", {}],
    ["error", "assertion failed: no cheese", { n: "7" }],
  ]);
});

test("console tells errors in what is logged, with their causes", async () => {
  const host = new TestHost();
  const error = new TypeError("outer", { cause: new AggregateError([new RangeError("one")], "all") });
  const run = handler(() => {
    console.error({ error, id: 7 });
    console.error("failed", { error });
    console.error(error);
  });
  await host.call(run);
  const [logged, field, alone] = host.lines;
  const titles = ["TypeError: outer", "caused by AggregateError: all", "one of them RangeError: one"];
  assert.equal(logged.message, JSON.stringify({ error: titles.join("\n"), id: 7 }));
  assert.deepEqual([field.message, field.fields.error], ["failed", alone.message]);
  assert.deepEqual(alone.message.split("\n").filter((line) => !line.startsWith("    at ")), titles);
  assert.match(alone.message, /caused by AggregateError: all\n {4}at .*context\.test\.js/);
});

test("console leads each stack back to the author's files", async () => {
  const stack = "    at f (componentize-qjs:user.js:1:2)\n    at next (native)\n";
  const cause = Object.assign(new Error("inner"), { stack });
  const host = new TestHost();
  setParts('[["src/a.js",1,0,""]]');
  await host.call(handler(() => console.error(Object.assign(new Error("outer", { cause }), { stack }))));
  setParts(undefined);
  const told = "Error: outer\n    at f (src/a.js)\ncaused by Error: inner\n    at f (src/a.js)";
  assert.equal(host.lines[0].message, told);
});

test("console puts values into a text", async () => {
  const host = new TestHost();
  const cases = [
    [["%s is %d, %i, %f", "a", "7.5", "7.9x", "7.5x"], "a is 7.5, 7, 7.5", {}],
    [["%j %j %o %O", "a", { a: 1 }, { b: 2 }, [3], { n: 7 }], '"a" {"a":1} {"b":2} [3]', { n: "7" }],
    [["%s", { a: 1 }], '{"a":1}', {}],
    [["%s %s", "a"], "a %s", {}],
    [["100%"], "100%", {}],
    [["%%"], "%%", {}],
    [["%%%d%x", 7n, "more", { n: 7 }], "%7%x more", { n: "7" }],
    [["%cred", "color: red"], "red", {}],
    [["%d", Symbol("a")], "NaN", {}],
    [["GET /%d0%b0%c3", { status: 200 }], "GET /%d0%b0%c3", { status: "200" }],
    [["a", "%s", "b"], "a %s b", {}],
    [[undefined], "undefined", {}],
    [[], "", {}],
  ];
  await host.call(handler(() => cases.forEach(([args]) => console.log(...args))));
  assert.deepEqual(
    host.lines.map(({ message, fields }) => [message, fields]),
    cases.map(([, ...told]) => told),
  );
});

test("console counts and times, in each attempt anew", async () => {
  const run = handler(() => {
    console.count();
    console.count("a");
    console.count("a");
    console.countReset("a");
    console.count("a");
    console.time("t");
    console.timeLog("t", "half", { n: 7 });
    console.timeEnd("t");
    console.timeEnd("t");
    console.groupCollapsed("group");
  });
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    const host = new TestHost({ attempt });
    await host.call(run);
    const told = host.lines.map(({ level, message }) => `${level} ${message.replace(/\d+\.\d{3}ms/, "…ms")}`);
    assert.deepEqual(told, [
      ...["default: 1", "a: 1", "a: 2", "a: 1", "t: …ms half", "t: …ms"].map((message) => `info ${message}`),
      "warn t: no such timer",
      "info group",
    ]);
    assert.deepEqual(host.lines[4].fields, { n: "7" });
  }
});

test("console tells an error's name and message once, whether or not its stack begins with them", async () => {
  const host = new TestHost();
  const bare = Object.assign(new RangeError("at"), { stack: "    at atlas (plugin.js:1:2)" });
  const silent = Object.assign(new RangeError(), { stack: "RangeError\n    at atlas (plugin.js:1:2)" });
  await host.call(handler(() => [bare, silent].forEach((error) => console.error(error))));
  assert.deepEqual(
    host.lines.map((line) => line.message),
    ["RangeError: at\n    at atlas (plugin.js:1:2)", "RangeError\n    at atlas (plugin.js:1:2)"],
  );
});
