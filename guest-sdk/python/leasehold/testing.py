"""For the unit tests of a handler: a host that does as it is told.

    host = TestHost()
    output = host.call(greet, {"name": "Ada"})

It goes on until `stop` says otherwise, does not really wait, and keeps state and key-values in memory. What a handler
logs goes to `logging` as in any other program: `assertLogs` sees it.
"""

import json
import re
import unicodedata
from typing import Any, Callable, Optional

from ._context import Context, Run
from ._handler import call
from ._host import ContractError, set_host
from ._http import Response


class Request:
    """What a handler asked for; `headers` has names in lower case."""

    def __init__(self, method: str, url: str, headers: dict[str, str], body: Optional[bytes]) -> None:
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body or b"null")


class TestHost:
    __test__ = False  # for pytest, which would take it for a test

    def __init__(self, **run: Any) -> None:
        """`run` changes facts of the run, such as `attempt=2`."""
        facts: dict[str, Any] = {
            "id": "test-run",
            "tenant": "test",
            "job": "job",
            "slot_ms": 1_735_689_600_000,
            "attempt": 1,
            "max_attempts": 3,
            "fence": 1_735_689_600_000 * 1024 + 1,
            "reason": "schedule",
            "metadata": {},
        }
        self.run = Run(**(facts | run))
        self.settings: dict[str, str] = {}
        """What the configuration has."""
        self.values: dict[str, bytes] = {}
        """The key-value space."""
        self.saved: Optional[bytes] = None
        """The checkpoint."""
        self.slept_ms = 0
        self.reported: list[tuple[int, Optional[int], str]] = []
        """Each report of progress: done, total, message."""
        self.answer: Optional[Callable[[Request], Response]] = None
        """Answers requests; without it every origin is denied. It may raise an `http_error`."""
        self._stop: Optional[tuple[int, str]] = None

    def call(self, handler: Callable[[Context, Any], Any], payload: Any = None) -> Any:
        """Calls a handler as the host does, and returns its output's JSON value; a payload of bytes is passed as it is."""
        return json.loads(self.call_bytes(handler, payload))

    def call_bytes(self, handler: Callable[[Context, Any], Any], payload: Any = None) -> bytes:
        """As `call`, for the output's bytes."""
        given = payload if isinstance(payload, bytes) else json.dumps(payload, ensure_ascii=False).encode()
        before = set_host(self)
        try:
            return call(handler, Context(self.run, given))
        finally:
            set_host(before)

    def stop(self, reason: str = "stopping", after: int = 0) -> None:
        """The handler must stop, once it has asked, or waited, `after` more times."""
        self._stop = (after, reason)

    def should_continue(self) -> bool:
        if self._stop is None:
            return True
        left, reason = self._stop
        self._stop = (max(0, left - 1), reason)
        return left > 0

    def stop_reason(self) -> Optional[str]:
        return self._stop[1] if self._stop is not None and self._stop[0] == 0 else None

    def remaining_ms(self) -> Optional[int]:
        return None

    def sleep(self, ms: int) -> bool:
        goes_on = self.should_continue()
        self.slept_ms += ms if goes_on else 0
        return goes_on

    def idempotency_key(self, operation: str) -> str:
        return f"{self.run.id}/{operation}"

    def max_level(self) -> str:
        return "trace"

    def emit(self, level: str, target: str, message: str, fields: "list[tuple[str, str]]") -> None:
        raise AssertionError("logging is the test's own")

    def progress(self, done: int, total: Optional[int], message: str) -> None:
        self.reported.append((done, total, message))

    def state_load(self) -> Optional[bytes]:
        return self.saved

    def state_save(self, data: bytes) -> None:
        _check(value=data)
        self.saved = data

    def kv_get(self, key: str) -> Optional[bytes]:
        _check(key)
        return self.values.get(key)

    def kv_set(self, key: str, value: bytes) -> None:
        _check(key, value)
        self.values[key] = value

    def kv_delete(self, key: str) -> bool:
        _check(key)
        return self.values.pop(key, None) is not None

    def kv_list(self, prefix: str, after: Optional[str], limit: int) -> "list[str]":
        _check(prefix)
        _check(after or "")
        order = sorted(self.values, key=str.encode)
        found = [key for key in order if key.startswith(prefix) and (after is None or key.encode() > after.encode())]
        return found[:limit]

    def kv_compare_and_set(self, key: str, expected: Optional[bytes], value: bytes) -> bool:
        _check(key, value)
        if self.values.get(key) != expected:
            return False
        self.values[key] = value
        return True

    def config(self, key: str) -> Optional[str]:
        return self.settings.get(key)

    def send(
        self,
        method: str,
        url: str,
        headers: "list[tuple[str, str]]",
        body: Optional[bytes],
        timeout_ms: Optional[int],
    ) -> "tuple[int, list[tuple[str, str]], bytes]":
        _check_url(url)
        if self.answer is None:
            raise ContractError("denied", f"{url} is not granted in this test: set `answer`")
        _check_request(headers, body)
        response = self.answer(Request(method, url, dict(headers), body))
        return response.status_code, list(response.headers.items()), response.content


def reply(status: int = 200, *, json_value: Any = None, content: bytes = b"", **headers: str) -> Response:
    """An answer to a request; `x_reply="1"` becomes the header `x-reply`."""
    body = content if json_value is None else json.dumps(json_value, ensure_ascii=False).encode()
    return Response(status, [(name.replace("_", "-"), value) for name, value in headers.items()], body)


def http_error(case: str, value: "str | int | None" = None) -> ContractError:
    """To raise in an answer: `lost`, `uncertain`, `denied`, `invalid`, `unreachable`, `timeout`, `too-large`, `other`."""
    return ContractError(case, value)


# What the host refuses whatever it was granted, in its words, as far as that is told without reading a URL as it does.
_MAX_KEY = 512
_MAX_VALUE = _MAX_BODY = 1 << 20
_MAX_URL = 8 * 1024
_MAX_HEADERS = 100
_MAX_HEADER_BYTES = 64 * 1024


def _check(key: str = "", value: bytes = b"") -> None:
    if len(key.encode()) > _MAX_KEY:
        raise ContractError("too-large", _MAX_KEY)
    if len(value) > _MAX_VALUE:
        raise ContractError("too-large", _MAX_VALUE)


def _check_url(url: str) -> None:
    scheme, colon, _ = url.partition(":")
    if len(url.encode()) > _MAX_URL:
        why = f"it is longer than {_MAX_URL} bytes"
    elif any(c.isspace() or unicodedata.category(c) == "Cc" for c in url):
        why = "it contains a space or a control character"
    elif not colon:
        why = "it is not a URL: relative URL without a base"
    elif scheme.lower() not in ("https", "http"):
        why = "its scheme is neither https nor http"
    else:
        return
    raise ContractError("invalid", f"the URL cannot be used: {why}")


def _check_request(headers: "list[tuple[str, str]]", body: Optional[bytes]) -> None:
    if len(body or b"") > _MAX_BODY:
        raise ContractError("too-large", _MAX_BODY)
    if len(headers) > _MAX_HEADERS:
        raise ContractError("invalid", f"it has {len(headers)} headers, more than {_MAX_HEADERS}")
    if sum(len(name.encode()) + len(value.encode()) for name, value in headers) > _MAX_HEADER_BYTES:
        raise ContractError("too-large", _MAX_HEADER_BYTES)
    for name, value in headers:
        if not re.fullmatch(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", name):
            raise ContractError("invalid", f"{json.dumps(name, ensure_ascii=False)} is no header's name")
        if re.search(r"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise ContractError("invalid", f"the header {name} has a value that cannot be sent")
