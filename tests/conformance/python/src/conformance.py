"""The same checks as in every other language: tests/tests/languages.rs says what each must answer."""

import json
import logging

import leasehold
from leasehold import Cancelled, Context, HttpError, Permanent, Retryable, handler

logger = logging.getLogger(__name__)
EVERY_BYTE = bytes(range(256))


@handler(input="bytes")
def check(ctx: Context, payload: bytes) -> object:
    try:
        asked = json.loads(payload)
    except ValueError:  # what is no JSON comes back as it is
        return payload
    found = _CHECKS.get(asked["check"])
    if not found:
        raise Permanent("no-such-check", f"there is no check {asked['check']!r}")
    return found(ctx, asked)


def echo(ctx: Context, _: dict) -> bytes:
    return ctx.payload


def facts(ctx: Context, _: dict) -> dict:
    run = ctx.run
    return {
        "tenant": run.tenant,
        "job": run.job,
        "attempt": run.attempt,
        "reason": run.reason,
        "run_id": run.id,
        "fence": run.fence,
        "slot_ms": run.slot_ms,
        "key": ctx.idempotency_key("charge-42"),
    }


def fail(_: Context, payload: dict) -> None:
    if payload["kind"] == "cancelled":
        raise Cancelled()
    kind = {"permanent": Permanent, "retryable": Retryable}[payload["kind"]]
    raise kind(payload["code"], payload["message"], payload["details"])


def crash(_: Context, __: dict) -> None:
    raise RuntimeError("crash on purpose")


def log(_: Context, __: dict) -> None:
    levels = {"trace": 5, "debug": 10, "info": 20, "warn": 30, "error": 40}
    for name, level in levels.items():
        logger.log(level, "line at %s: grüße", name, extra={"n": 7, "s": "späß"})


def poll(ctx: Context, _: dict) -> dict:
    while not ctx.signal.stopped:
        try:
            ctx.sleep(0.001)
        except Cancelled:
            break
    return {"stopped": ctx.signal.reason}


def sleep(ctx: Context, payload: dict) -> dict:
    try:
        ctx.sleep(payload["ms"] / 1000)
    except Cancelled as stopped:
        return {"slept": False, "reason": stopped.reason}
    return {"slept": True, "reason": None}


def state(ctx: Context, _: dict) -> dict:
    saved = ctx.state.load()
    if saved is not None:
        return saved
    ctx.state.save({"from": ctx.run.attempt})
    logger.info("saved")
    while True:
        ctx.sleep(1)


def kv(ctx: Context, _: dict) -> dict:
    ctx.kv.set("conf/a", "1")
    return {
        "get": ctx.kv.get_text("conf/a"),
        "cas_wrong": ctx.kv.compare_and_set("conf/a", "0", "2"),
        "cas_right": ctx.kv.compare_and_set("conf/a", "1", "2"),
        "keys": ctx.kv.list("conf/"),
        "deleted": ctx.kv.delete("conf/a"),
        "after": ctx.kv.get("conf/a"),
    }


def kv_bytes(ctx: Context, _: dict) -> dict:
    kv, key = ctx.kv, "conf/b"
    return {
        "new": kv.compare_and_set(key, None, ""),
        "empty": kv.get_text(key),
        "present": kv.compare_and_set(key, None, "x"),
        "filled": kv.compare_and_set(key, "", EVERY_BYTE),
        "bytes": list(kv.get(key) or b""),
    }


def config(ctx: Context, payload: dict) -> "str | None":
    return ctx.config.get(payload["key"])


def http(_: Context, payload: dict) -> dict:
    headers, body = payload.get("headers"), payload.get("body")
    try:
        response = leasehold.request(payload["method"], payload["url"], headers=headers, data=body)
    except HttpError as error:
        raise Permanent(f"http-{error.case}", error) from error
    return {"status": response.status_code, "body": response.text, "header": response.headers.get("x-reply")}


def http_bytes(_: Context, payload: dict) -> "list[int]":
    # A mapping has a name once, so both values are in one header, as in `requests`.
    response = leasehold.post(payload["url"], headers={"x-tag": "a, b"}, data=EVERY_BYTE)
    return list(response.content)


_CHECKS = {
    check.__name__.replace("_", "-"): check
    for check in (echo, facts, fail, crash, log, poll, sleep, state, kv, kv_bytes, config, http, http_bytes)
}
