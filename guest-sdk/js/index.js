// What a handler is written with; README.md documents every call.

export { handler } from "./src/handler.js";
export { Cancelled, HttpError, Permanent, Retryable, StorageError } from "./src/errors.js";
export { Headers, Response, fetch } from "./src/fetch.js";
