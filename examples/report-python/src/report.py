"""Reads a web server's access log and says what is in it.

The payload is the log itself, in the common or the combined log format, as `payload_file` hands it over. It may instead be
a JSON object, { "log": "…", "pace_ms": 20 }: then the handler waits that long after each chunk of lines, so that it can be
watched at work, and stopped or killed in the middle of it.
"""

import json
import logging

from leasehold import Context, Permanent, handler
from summary import Counts

CHUNK = 200
"""How many lines are read between two looks at the signal."""

logger = logging.getLogger(__name__)


@handler(input="bytes")
def report(ctx: Context, payload: bytes) -> dict:
    log, pace_ms = _read(payload)
    lines = [line for line in log.split(b"\n") if line.strip(b" \t\f\r")]
    logger.info("reading an access log", extra={"lines": len(lines), "attempt": ctx.run.attempt})

    counts = Counts()
    for start in range(0, len(lines), CHUNK):
        ctx.signal.raise_if_stopped()
        for line in lines[start : start + CHUNK]:
            counts.add(line)
        ctx.progress(counts.lines, len(lines), "lines read")
        if pace_ms:
            ctx.sleep(pace_ms / 1000)
    if counts.malformed:
        message = "some lines are not in the common or combined log format"
        logger.warning(message, extra={"malformed": counts.malformed})
    return counts.summary()


def _read(payload: bytes) -> "tuple[bytes, int]":
    """The log and the wait after each chunk, in milliseconds."""
    # No line of an access log begins with a brace: its first field is a host name or an address.
    if not payload.lstrip().startswith(b"{"):
        return payload, 0
    try:
        request = json.loads(payload)
        log, pace_ms = request.pop("log"), request.pop("pace_ms", 0)
        if request:
            raise ValueError(f"unknown key {next(iter(request))}")
        if not isinstance(log, str) or not isinstance(pace_ms, int) or pace_ms < 0:
            raise ValueError("log must be a text and pace_ms a number")
    except (ValueError, KeyError) as error:
        raise Permanent("bad-input", f"the payload is neither an access log nor a request: {error}") from error
    return log.encode("utf-8", "replace"), pace_ms
