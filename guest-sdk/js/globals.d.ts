// What a handler finds as globals beside the language itself: all there is, for TypeScript without the types of a browser
// or of Node.

import type * as sdk from "./index.js";

type Timer = number;

declare global {
  /** Lines of the run's log. An object at the end, after a text, becomes the line's fields. */
  const console: Record<
    "trace" | "debug" | "log" | "info" | "warn" | "error" | "group" | "groupCollapsed" | "dirxml",
    (...args: unknown[]) => void
  > & {
    dir(value: unknown): void;
    table(value: unknown): void;
    groupEnd(): void;
    clear(): void;
    assert(holds: unknown, ...args: unknown[]): void;
    count(label?: string): void;
    countReset(label?: string): void;
    time(label?: string): void;
    timeLog(label?: string, ...args: unknown[]): void;
    timeEnd(label?: string): void;
  };
  const fetch: typeof sdk.fetch;
  const Headers: typeof sdk.Headers;
  const Response: typeof sdk.Response;
  type Headers = sdk.Headers;
  type Response = sdk.Response;

  function setTimeout<A extends unknown[]>(callback: (...args: A) => void, ms?: number, ...args: A): Timer;
  function setTimeout(callback: (nothing: void) => void, ms?: number): Timer;
  function setInterval<A extends unknown[]>(callback: (...args: A) => void, ms?: number, ...args: A): Timer;
  function setInterval(callback: (nothing: void) => void, ms?: number): Timer;
  function clearTimeout(timer: Timer | undefined): void;
  function clearInterval(timer: Timer | undefined): void;
  function queueMicrotask(job: () => void): void;
  function atob(text: string): string;
  function btoa(text: string): string;
  const performance: { now(): number };

  class TextEncoder {
    readonly encoding: "utf-8";
    encode(text?: string): Uint8Array;
  }

  /** Of UTF-8 only. */
  class TextDecoder {
    constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
    readonly encoding: "utf-8";
    decode(bytes?: ArrayBuffer | ArrayBufferView): string;
  }
}
