import logging

from leasehold import Context, handler

logger = logging.getLogger(__name__)


@handler
def greet(ctx: Context, payload: dict) -> dict:
    logger.info("greeting", extra={"who": payload["name"], "attempt": ctx.run.attempt})
    ctx.signal.raise_if_stopped()  # before every side effect
    return {"text": f"Hello, {payload['name']}!"}
