"""`logging`, as lines of the run's log. `logger.info("text", extra={"key": value})`: what is extra becomes fields."""

import logging

from ._host import current, well_formed

TRACE = 5
_LEVELS = {"trace": TRACE, "debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
# What every record has: whatever else there is, a caller has put there.
_OWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class HostHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = self.format(record)
            fields = [(well_formed(key), well_formed(value)) for key, value in vars(record).items() if key not in _OWN]
            current().emit(_level(record.levelno), well_formed(record.name), well_formed(message), fields)
        except Exception:  # as every handler of the standard library: a line that fails must not fail the run
            self.handleError(record)


def start() -> None:
    """Called once an attempt, before the handler. What the plugin has set up itself stays beside it."""
    logging.addLevelName(TRACE, "TRACE")
    root = logging.getLogger()
    if not any(isinstance(known, HostHandler) for known in root.handlers):
        root.addHandler(HostHandler())
    root.setLevel(_LEVELS.get(current().max_level(), TRACE))


def _level(number: int) -> str:
    return next((name for name, least in reversed(_LEVELS.items()) if number >= least), "trace")
