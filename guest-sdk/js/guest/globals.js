// What a handler finds as globals beside the language itself. Imported before everything else.

import * as loop from "./promise.js";
import { TextDecoder, TextEncoder } from "./text.js";
import { console } from "../src/console.js";
import { Headers, Response, fetch } from "../src/fetch.js";

Object.assign(globalThis, {
  Promise: loop.Promise,
  queueMicrotask: loop.queueMicrotask,
  setTimeout: loop.setTimeout,
  setInterval: loop.setInterval,
  clearTimeout: loop.clearTimer,
  clearInterval: loop.clearTimer,
  TextDecoder,
  TextEncoder,
  console,
  fetch,
  Headers,
  Response,
});

// Makes a promise of the engine's own, which nothing here settles.
delete Array.fromAsync;

/** The engine's generator was seeded when the plugin was built: every run would draw the same numbers. */
export function seedRandom(text) {
  // FNV-1a over the text four times, apart by their first word; then xorshift128.
  const [a, b, c, d] = [1, 2, 3, 4].map((first) => {
    let hash = 0x811c9dc5 ^ first;
    for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
    return hash | 1;
  });
  let words = [a, b, c, d];
  const next = () => {
    let [x, y, z, w] = words;
    x ^= x << 11;
    x ^= x >>> 8;
    words = [y, z, w, w ^ (w >>> 19) ^ x];
    return words[3] >>> 0;
  };
  for (let round = 0; round < 16; round += 1) next();
  Math.random = () => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
}
