"""Write a Leasehold job handler in Python: a function of a context and a payload. README.md documents every call."""

from ._context import Context, Run, Signal
from ._errors import Cancelled, HttpError, LeaseholdError, Permanent, Retryable, StorageError
from ._handler import handler
from ._http import Response, delete, get, head, patch, post, put, request

__all__ = [
    "Cancelled",
    "Context",
    "HttpError",
    "LeaseholdError",
    "Permanent",
    "Response",
    "Retryable",
    "Run",
    "Signal",
    "StorageError",
    "delete",
    "get",
    "handler",
    "head",
    "patch",
    "post",
    "put",
    "request",
]
