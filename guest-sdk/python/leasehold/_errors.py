"""How a handler fails, and what the host is told about it."""

import traceback
from typing import Mapping, Optional

from ._host import ContractError

_MOST = 1024  # bytes of an exception's text and of its traceback


class LeaseholdError(Exception):
    """The base of all errors of this package."""


class Failure(LeaseholdError):
    """A failed run: a short and stable code, a message for people, details."""

    kind = "permanent"

    def __init__(self, code: str, message: object, details: Optional[Mapping[str, object]] = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = str(code)
        self.message = str(message)
        self.details = {str(key): str(value) for key, value in (details or {}).items()}


class Retryable(Failure):
    """Something that may go better next time, such as an upstream that did not answer."""

    kind = "retryable"


class Permanent(Failure):
    """Something that fails the same way every time, such as a payload that makes no sense."""


class Cancelled(LeaseholdError):
    """The handler stopped because the host asked it to; `reason` is the host's word for why, where it is known."""

    def __init__(self, reason: Optional[str] = None) -> None:
        super().__init__("asked to stop" if reason is None else f"asked to stop: {reason}")
        self.reason = reason


class StorageError(LeaseholdError):
    """Why the host did not keep or find something.

    `case` is lost, too-large, over-quota, unavailable or other; `limit` is in bytes, for the two that have one.
    """

    def __init__(self, case: str, value: "str | int | None" = None) -> None:
        super().__init__(_STORAGE.get(case, "{}").format(value))
        self.case = case
        self.limit = value if isinstance(value, int) else None


class HttpError(LeaseholdError):
    """Why there is no response.

    `case` is lost, uncertain, denied, invalid, unreachable, timeout, too-large or other.
    """

    def __init__(self, case: str, value: "str | int | None" = None) -> None:
        super().__init__(_HTTP.get(case, "{}" if case == "other" else case + ": {}").format(value))
        self.case = case
        self.limit = value if isinstance(value, int) else None


_STORAGE = {
    "lost": "this attempt has lost its run",
    "too-large": "it is larger than the {} bytes allowed",
    "over-quota": "the tenant would keep more than the {} bytes it may",
    "unavailable": "the store is unavailable: {}",
}
_HTTP = {
    "lost": "this attempt has lost its run; nothing was sent",
    "uncertain": "the lease came into doubt before an answer: it may or may not have had its effect",
    "timeout": "no whole response in time",
    "too-large": "larger than the {} bytes allowed",
}


def failure(error: BaseException) -> "Failure | Cancelled":
    """What the host is told about anything that was raised."""
    if isinstance(error, Cancelled):
        return error
    if isinstance(error, Failure):
        if error.__cause__ is not None:
            error.details.setdefault("cause", _title(error.__cause__))
        return error
    if isinstance(error, (StorageError, HttpError)) and error.case == "lost":
        return Cancelled("lost")
    if isinstance(error, StorageError):
        if error.case == "unavailable":
            return Retryable("storage-unavailable", error)
        return Permanent("storage" if error.case == "other" else f"storage-{error.case}", error)
    if isinstance(error, HttpError):
        kind = Permanent if error.case in ("denied", "invalid", "too-large") else Retryable
        return kind("http" if error.case == "other" else f"http-{error.case}", error)
    return _exception(error)


def _exception(error: BaseException) -> Permanent:
    """Nobody caught it. Of a long traceback the end is kept, where the error is."""
    stack = "".join(traceback.format_exception(error)).encode("utf-8", "replace")
    end = stack[-_MOST:].decode("utf-8", "ignore")
    return Permanent("exception", _title(error), {"stack": end})


def _title(error: BaseException) -> str:
    title = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return title.encode("utf-8", "replace")[:_MOST].decode("utf-8", "ignore")


def storage_error(error: ContractError) -> StorageError:
    return StorageError(error.case, error.value)


def http_error(error: ContractError) -> HttpError:
    return HttpError(error.case, error.value)
