import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Cancelled } from "leasehold";
import { TestHost } from "leasehold/testing";

import report from "./index.ts";
import { parse } from "./line.ts";

const LINE = '192.0.2.1 - - [29/Nov/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 100 "-" "curl/8.5.0"';
const bytes = (text: string) => new TextEncoder().encode(text);

test("a raw log is counted and its broken lines too", async () => {
  const summary = await new TestHost().call(report, bytes(`${LINE}\n\nnonsense\n${LINE}\r\n`));
  assert.deepEqual(summary, {
    lines: 3,
    malformed: 1,
    bytes: 200,
    by_status: { 200: 2 },
    by_path: [{ path: "/a", count: 2, bytes: 200 }],
    other_paths: { count: 0, bytes: 0 },
    response_size: { p50: 100, p90: 100, p99: 100, max: 100 },
  });
});

test("a request with a pace gives the same report as the raw log", async () => {
  const host = new TestHost();
  assert.deepEqual(await host.call(report, { log: LINE, pace_ms: 20 }), await host.call(report, bytes(LINE)));
  assert.equal(host.sleptMs, 20);
});

test("a request with an unknown key is refused", async () => {
  await assert.rejects(new TestHost().call(report, { log: "", pace: 20 }), { code: "bad-input" });
});

test("it stops between two chunks", async () => {
  const host = new TestHost();
  host.stop("lost", 2);
  await assert.rejects(host.call(report, bytes(`${LINE}\n`.repeat(600))), Cancelled);
  assert.equal(host.reports.at(-1)?.done, 400);
});

test("broken lines are told apart", () => {
  for (const text of [
    "",
    LINE.slice(0, 60),
    LINE.replace("200", "two-hundred"),
    LINE.replace("200", "99999"),
    LINE.replace("100", "+5"),
    LINE.replace("100", "9".repeat(23)),
    LINE.replace("[", ""),
  ]) {
    assert.equal(parse(text), null, text);
  }
  assert.equal(parse(LINE.replace("GET /a HTTP/1.1", String.raw`GET \"quoted\" path HTTP/1.1`))?.path, "-");
  assert.equal(parse(LINE.replace("200 100", "304 -"))?.bytes, 0);
});

test("the sample is reported as the example in Rust does", async () => {
  const summary = await new TestHost().call(report, readFileSync("../report/access.log"));
  assert.ok(summary.lines > 2000 && summary.malformed > 0, JSON.stringify(summary));
});
