// The plugin's export, made of a handler.

import { seedRandom } from "./globals.js";
import { host } from "./host.js";
import { settle, unhandled } from "./promise.js";
import { console } from "../src/console.js";
import { Context } from "../src/context.js";
import { toHandlerError } from "../src/errors.js";
import { call, isHandler } from "../src/handler.js";
import { setHost } from "../src/host.js";

/** What the contract's `handler` interface is: `handle` returns the output's bytes or throws a `handler-error`. */
export function serve(plugin) {
  if (!isHandler(plugin)) {
    throw new TypeError("the module's default export is no handler: export default handler((ctx, input) => …)");
  }
  return {
    handle(info, payload) {
      setHost(host);
      seedRandom(`${info.runId} ${info.attempt} ${Date.now()} ${performance.now()}`);
      const context = new Context(info, payload);
      // Timers wait here. Listeners are told first that a wait is cut short.
      const wait = (ms) => (ms > 0 && host.sleep(ms)) || !context.signal.aborted;
      const stop = () => context.signal.throwAborted();
      try {
        return settle(call(plugin, context), { wait, stop });
      } catch (error) {
        throw toHandlerError(error);
      } finally {
        // It may be what the run was about, so it must not pass unseen.
        for (const error of unhandled()) console.error("a promise was rejected, and nothing handles it:", error);
      }
    },
  };
}
