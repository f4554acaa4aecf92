// The host, as this package calls it: the real one inside a plugin (guest/host.js), a double in tests (testing.js).
//
// Both have the same functions and throw `{ tag, val }` where the contract has an error: its case and what it carries.

let current;

/** From now on `host()` is this one. Returns the one before. */
export function setHost(next) {
  const before = current;
  current = next;
  return before;
}

export function host() {
  if (!current) throw new Error("there is no host here: in tests, call the handler with `call` of leasehold/testing");
  return current;
}
