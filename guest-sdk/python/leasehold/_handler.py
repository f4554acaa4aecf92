"""A handler, and the way of one run through it: payload in, function, payload out."""

import inspect
import json
from typing import Any, Callable, Optional, TypeVar, overload

from ._context import Context
from ._errors import Permanent

Function = Callable[[Context, Any], Any]
F = TypeVar("F", bound=Function)
_INPUTS = ("json", "text", "bytes")
_registered: Optional[tuple[Function, str]] = None


@overload
def handler(function: F) -> F: ...
@overload
def handler(*, input: str = "json") -> Callable[[F], F]: ...
def handler(function: Optional[F] = None, *, input: str = "json") -> "F | Callable[[F], F]":
    """Marks the one function that handles the plugin's runs; it stays a function that can be called.

    `input` says what it is given: the payload's JSON value (the default), its text or its bytes. What it returns becomes
    JSON; bytes stay as they are.
    """
    if input not in _INPUTS:
        raise ValueError(f"input: {input!r} must be one of {', '.join(_INPUTS)}")

    def register(function: F) -> F:
        global _registered
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            name = getattr(function, "__name__", "the handler")
            raise TypeError(f"{name} is async: write `def` without `async`; calls of the context are not awaited")
        function.__leasehold_input__ = input  # type: ignore[attr-defined]
        _registered = (function, input)
        return function

    return register if function is None else register(function)


def registered() -> Function:
    if _registered is None:
        raise RuntimeError("the plugin has no handler: put @leasehold.handler before a function of its main module")
    return _registered[0]


def call(function: Function, context: Context) -> bytes:
    """Calls a handler as the host does: with its payload's bytes, for the output's."""
    given = _read(context.payload, getattr(function, "__leasehold_input__", "json"))
    return _write(function(context, given))


def _read(payload: bytes, kind: str) -> Any:
    if kind == "bytes":
        return payload
    try:
        if kind == "text":
            return payload.decode()
        # A run on demand without a payload has an empty one.
        return json.loads(payload) if payload else None
    except ValueError as error:
        what = "JSON" if kind == "json" else "text"
        raise Permanent("bad-input", f"the payload is not {what}: {error}") from None


def _write(output: Any) -> bytes:
    if isinstance(output, (bytes, bytearray, memoryview)):
        return bytes(output)
    try:
        return json.dumps(output, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Permanent("bad-output", f"the output has no form in JSON: {error}") from None
