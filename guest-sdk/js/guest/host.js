// The real host, over the bindings of the world `job`.

import * as config from "leasehold:job/config@0.1.0";
import * as control from "leasehold:job/control@0.1.0";
import * as http from "leasehold:job/http@0.1.0";
import * as kv from "leasehold:job/kv@0.1.0";
import * as log from "leasehold:job/log@0.1.0";
import * as progress from "leasehold:job/progress@0.1.0";
import * as state from "leasehold:job/state@0.1.0";

/** The bindings throw an Error whose payload is the contract's. */
const plain =
  (call) =>
  (...args) => {
    try {
      return call(...args);
    } catch (error) {
      throw error?.payload ?? error;
    }
  };

export const host = {
  shouldContinue: control.shouldContinue,
  stopReason: control.stopReason,
  remainingMs: control.remainingMs,
  sleep: control.sleep,
  idempotencyKey: control.idempotencyKey,
  maxLevel: log.maxLevel,
  emit: log.emit,
  progress: progress.update,
  stateLoad: plain(state.load),
  stateSave: plain(state.save),
  kvGet: plain(kv.get),
  kvSet: plain(kv.set),
  kvDelete: plain(kv["delete"]),
  kvList: plain(kv.listKeys),
  kvCompareAndSet: plain(kv.compareAndSet),
  config: config.get,
  send: plain(http.send),
};
