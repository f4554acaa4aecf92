import assert from "node:assert/strict";
import { test } from "node:test";

import { Cancelled } from "leasehold";
import { TestHost } from "leasehold/testing";

import greet from "../src/index.js";

test("it greets by name", async () => {
  assert.deepEqual(await new TestHost().call(greet, { name: "Ada" }), { text: "Hello, Ada!" });
});

test("it greets nobody once the run is lost", async () => {
  const host = new TestHost();
  host.stop("lost");
  await assert.rejects(host.call(greet, { name: "Ada" }), Cancelled);
});
