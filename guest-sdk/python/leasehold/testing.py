"""For the unit tests of a handler: a host that does as it is told.

    host = TestHost()
    output = host.call(greet, {"name": "Ada"})

It goes on until `stop` says otherwise, does not really wait, and keeps state and key-values in memory. What a handler
logs goes to `logging` as in any other program: `assertLogs` sees it.
"""

import json
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
        self.saved = data

    def kv_get(self, key: str) -> Optional[bytes]:
        return self.values.get(key)

    def kv_set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def kv_delete(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def kv_list(self, prefix: str, after: Optional[str], limit: int) -> "list[str]":
        order = sorted(self.values, key=str.encode)
        found = [key for key in order if key.startswith(prefix) and (after is None or key.encode() > after.encode())]
        return found[:limit]

    def kv_compare_and_set(self, key: str, expected: Optional[bytes], value: bytes) -> bool:
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
        if self.answer is None:
            raise ContractError("denied", f"{url} is not granted in this test: set `answer`")
        response = self.answer(Request(method, url, dict(headers), body))
        return response.status_code, list(response.headers.items()), response.content


def reply(status: int = 200, *, json_value: Any = None, content: bytes = b"", **headers: str) -> Response:
    """An answer to a request; `x_reply="1"` becomes the header `x-reply`."""
    body = content if json_value is None else json.dumps(json_value, ensure_ascii=False).encode()
    return Response(status, [(name.replace("_", "-"), value) for name, value in headers.items()], body)


def http_error(case: str, value: "str | int | None" = None) -> ContractError:
    """To raise in an answer: `lost`, `uncertain`, `denied`, `invalid`, `unreachable`, `timeout`, `too-large`, `other`."""
    return ContractError(case, value)
