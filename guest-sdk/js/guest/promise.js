// Promise, timers and the loop that drives them until a handler has settled.
//
// The engine runs promise jobs only for asynchronous exports, and the contract has none. So a plugin brings its own
// Promise, build.mjs compiles `async` and `await` down to it, and the loop here is run to its end within the one
// synchronous call. Every host call is synchronous, so nothing ever waits but timers, and these wait in the host.

const jobs = [];
let timers = [];
let lastTimer = 0;
// Milliseconds that the clock's time can still be added to exactly.
const LONGEST = 2 ** 52;

// Rejected promises that nothing has asked for yet, of which the first are told.
const unasked = new Set();
const TOLD = 10;
let reasonOf;

/** Why promises were rejected that nothing ever asked for. */
export function unhandled() {
  const errors = [...unasked].map((promise) => reasonOf(promise));
  unasked.clear();
  return errors;
}

export function queueMicrotask(job) {
  jobs.push(job);
}

export function setTimeout(callback, ms = 0, ...args) {
  return start(callback, ms, args, false);
}

export function setInterval(callback, ms = 0, ...args) {
  return start(callback, ms, args, true);
}

export function clearTimer(id) {
  timers = timers.filter((timer) => timer.id !== id);
}

function start(callback, ms, args, repeat) {
  const wait = Math.min(Math.max(0, Number(ms) || 0), LONGEST);
  lastTimer += 1;
  timers.push({ id: lastTimer, due: Date.now() + wait, wait: Math.max(1, wait), callback, args, repeat });
  return lastTimer;
}

/**
 * Runs everything there is to run until `promise` has settled. `wait(ms)` waits, and says whether it did so to the end: it
 * returns false, at once, when the attempt must stop. `stop()` throws what ends the attempt then.
 *
 * Timers that are there when the attempt must stop are due at once, each of them once: what waits for them is to see that it
 * must stop. Whatever would keep a loop going from then on, which are intervals and timers that are new, ends it.
 */
export function settle(promise, { wait, stop }) {
  let outcome;
  promise.then(
    (value) => (outcome = { value }),
    (error) => (outcome = { error }),
  );
  // The last timer that was there when the attempt had to stop.
  let last = null;
  for (runJobs(); !outcome; runJobs()) {
    if (last === null) {
      const next = earliest(timers);
      if (!wait(next ? Math.max(0, Math.ceil(next.due - Date.now())) : 0)) {
        last = lastTimer;
        // Whoever was told of it may have settled everything.
        continue;
      }
      if (!next) throw new Error("the handler waits for a promise that nothing can settle any more");
      fire(next);
    } else {
      const next = earliest(timers.filter(({ id, repeat }) => id <= last && !repeat));
      if (!next) stop();
      fire(next);
    }
  }
  if ("error" in outcome) throw outcome.error;
  return outcome.value;
}

function runJobs() {
  for (let next = 0; next < jobs.length; next += 1) {
    const job = jobs[next];
    // What has run is let go of now and then, so that a long chain does not keep all of its past.
    if (next === 1023) {
      jobs.splice(0, 1024);
      next = -1;
    }
    job();
  }
  jobs.length = 0;
}

function earliest(timers) {
  return timers.reduce((first, timer) => (first && first.due <= timer.due ? first : timer), undefined);
}

function fire(timer) {
  if (timer.repeat) timer.due = Date.now() + timer.wait;
  else clearTimer(timer.id);
  timer.callback(...timer.args);
}

/** As in the language, but for its jobs, which the loop above runs. */
export class Promise {
  #state = "pending";
  #value;
  #reactions = [];
  #isAsked = false;

  constructor(executor) {
    if (typeof executor !== "function") throw new TypeError("a promise is made of a function");
    const { resolve, reject } = this.#resolvers();
    try {
      executor(resolve, reject);
    } catch (error) {
      reject(error);
    }
  }

  then(onFulfilled, onRejected) {
    this.#isAsked = true;
    unasked.delete(this);
    return new Promise((resolve, reject) => {
      const reaction = () => {
        const callback = this.#state === "fulfilled" ? onFulfilled : onRejected;
        if (typeof callback !== "function") {
          (this.#state === "fulfilled" ? resolve : reject)(this.#value);
          return;
        }
        try {
          resolve(callback(this.#value));
        } catch (error) {
          reject(error);
        }
      };
      if (this.#state === "pending") this.#reactions.push(reaction);
      else queueMicrotask(reaction);
    });
  }

  catch(onRejected) {
    return this.then(undefined, onRejected);
  }

  finally(callback) {
    if (typeof callback !== "function") return this.then(callback, callback);
    return this.then(
      (value) => Promise.resolve(callback()).then(() => value),
      (error) =>
        Promise.resolve(callback()).then(() => {
          throw error;
        }),
    );
  }

  get [Symbol.toStringTag]() {
    return "Promise";
  }

  static {
    reasonOf = (promise) => promise.#value;
  }

  /** A pair of functions of which the first call counts. */
  #resolvers() {
    let called = false;
    const once = (callback) => (value) => {
      if (called) return;
      called = true;
      callback(value);
    };
    return { resolve: once((value) => this.#resolve(value)), reject: once((error) => this.#settle("rejected", error)) };
  }

  #resolve(value) {
    if (value === this) return this.#settle("rejected", new TypeError("a promise cannot be settled by itself"));
    let then;
    try {
      then = value !== null && (typeof value === "object" || typeof value === "function") ? value.then : undefined;
    } catch (error) {
      return this.#settle("rejected", error);
    }
    if (typeof then !== "function") return this.#settle("fulfilled", value);
    queueMicrotask(() => {
      const { resolve, reject } = this.#resolvers();
      try {
        then.call(value, resolve, reject);
      } catch (error) {
        reject(error);
      }
    });
  }

  #settle(state, value) {
    this.#state = state;
    this.#value = value;
    if (state === "rejected" && !this.#isAsked && unasked.size < TOLD) unasked.add(this);
    for (const reaction of this.#reactions) queueMicrotask(reaction);
    this.#reactions = [];
  }

  static resolve(value) {
    return value instanceof Promise ? value : new Promise((resolve) => resolve(value));
  }

  static reject(error) {
    return new Promise((_, reject) => reject(error));
  }

  static withResolvers() {
    let resolve, reject;
    const promise = new Promise((...both) => ([resolve, reject] = both));
    return { promise, resolve, reject };
  }

  static try(callback, ...args) {
    return new Promise((resolve) => resolve(callback(...args)));
  }

  static race(promises) {
    return new Promise((resolve, reject) => {
      for (const promise of promises) Promise.resolve(promise).then(resolve, reject);
    });
  }

  static all(promises) {
    return collect(promises, (promise, keep, reject) => promise.then(keep, reject));
  }

  static allSettled(promises) {
    return collect(promises, (promise, keep) =>
      promise.then(
        (value) => keep({ status: "fulfilled", value }),
        (reason) => keep({ status: "rejected", reason }),
      ),
    );
  }

  static any(promises) {
    const errors = collect(promises, (promise, keep, reject) => promise.then(reject, keep));
    return new Promise((resolve, reject) => {
      errors.then((all) => reject(new AggregateError(all, "every promise was rejected")), resolve);
    });
  }
}

/** A promise of what `each` keeps for every one, in their order. */
function collect(promises, each) {
  return new Promise((resolve, reject) => {
    const kept = [];
    let missing = 1;
    const done = () => (missing -= 1) === 0 && resolve(kept);
    let index = 0;
    for (const promise of promises) {
      const at = index;
      index += 1;
      missing += 1;
      const keep = (value) => {
        kept[at] = value;
        done();
      };
      each(Promise.resolve(promise), keep, reject);
    }
    done();
  });
}
