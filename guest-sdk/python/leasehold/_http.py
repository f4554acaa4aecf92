"""Requests to the origins that the operator and the job's manifest both allow, in the manner of `requests`."""

import json as jsons
import math
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, TypeGuard, Union
from urllib.parse import urlencode

from ._context import Data, as_bytes
from ._errors import Permanent, Retryable, http_error
from ._host import ContractError, current, well_formed

Form = Union[Mapping[str, object], Sequence[tuple[str, object]]]
Params = Union[Form, str, None]
Body = Union[Data, Form, None]
SentHeaders = Optional[Mapping[str, Union[str, bytes, int, float, None]]]
Timeout = Union[float, tuple[Optional[float], Optional[float]], None]


class Headers(Mapping[str, str]):
    """Names in any case; more than one value of a name are joined with a comma."""

    def __init__(self, pairs: "list[tuple[str, str]]") -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            name = name.lower()
            self._values[name] = f"{self._values[name]}, {value}" if name in self._values else value

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)


class Response:
    """A whole response."""

    def __init__(self, status_code: int, headers: "list[tuple[str, str]]", content: bytes, url: str = "") -> None:
        self.status_code = status_code
        self.headers = Headers(headers)
        self.content = content
        self.url = url

    @property
    def ok(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return jsons.loads(self.content)

    def raise_for_status(self) -> None:
        """Raises unless the status is 2xx: `Retryable` for 5xx, 408 and 429, `Permanent` for all others."""
        if self.ok:
            return
        again = self.status_code in (408, 429) or 500 <= self.status_code < 600
        kind = Retryable if again else Permanent
        message = f"the server answered {self.status_code}"
        raise kind("http-status", message, {"status": self.status_code, "url": self.url})

    def __repr__(self) -> str:
        return f"<Response [{self.status_code}]>"


def request(
    method: str,
    url: str,
    params: Params = None,
    data: Body = None,
    json: Any = None,
    *,
    headers: SentHeaders = None,
    timeout: Timeout = None,
) -> Response:
    """Sends a request and waits for the whole response. Any status is a response.

    Raises `HttpError`. `params` are added to the URL; `data` is sent as it is, a mapping or pairs as a form; `json` is
    sent as JSON. A header that is None is left out. `timeout`, in seconds, is that of all of it: a pair, of connecting and
    of the answer, is added up. Redirects are not followed.
    """
    if query := params if isinstance(params, str) else _encoded(params or {}):
        url += ("&" if "?" in url else "?") + query
    sent = {name.lower(): _header(name, value) for name, value in (headers or {}).items() if value is not None}
    body: Optional[bytes] = None
    if json is not None:
        body = jsons.dumps(json, ensure_ascii=False).encode()
        sent.setdefault("content-type", "application/json")
    elif _is_form(data):
        body = _encoded(data).encode()
        sent.setdefault("content-type", "application/x-www-form-urlencoded")
    elif data is not None:
        body = as_bytes(data)
    url = well_formed(url)
    asked = (well_formed(method).upper(), url, list(sent.items()), body, _milliseconds(timeout))
    try:
        status, answered, content = current().send(*asked)
    except ContractError as error:
        raise http_error(error) from None
    return Response(status, answered, content, url)


def get(
    url: str,
    params: Params = None,
    *,
    data: Body = None,
    json: Any = None,
    headers: SentHeaders = None,
    timeout: Timeout = None,
) -> Response:
    """As `request`; likewise below."""
    return request("GET", url, params, data, json, headers=headers, timeout=timeout)


def head(url: str, *, params: Params = None, headers: SentHeaders = None, timeout: Timeout = None) -> Response:
    return request("HEAD", url, params, headers=headers, timeout=timeout)


def post(
    url: str,
    data: Body = None,
    json: Any = None,
    *,
    params: Params = None,
    headers: SentHeaders = None,
    timeout: Timeout = None,
) -> Response:
    return request("POST", url, params, data, json, headers=headers, timeout=timeout)


def put(
    url: str,
    data: Body = None,
    *,
    json: Any = None,
    params: Params = None,
    headers: SentHeaders = None,
    timeout: Timeout = None,
) -> Response:
    return request("PUT", url, params, data, json, headers=headers, timeout=timeout)


def patch(
    url: str,
    data: Body = None,
    *,
    json: Any = None,
    params: Params = None,
    headers: SentHeaders = None,
    timeout: Timeout = None,
) -> Response:
    return request("PATCH", url, params, data, json, headers=headers, timeout=timeout)


def delete(
    url: str,
    *,
    data: Body = None,
    json: Any = None,
    params: Params = None,
    headers: SentHeaders = None,
    timeout: Timeout = None,
) -> Response:
    return request("DELETE", url, params, data, json, headers=headers, timeout=timeout)


def _header(name: str, value: "str | bytes | int | float") -> str:
    # Of other things str() would make a value that nobody meant.
    if not isinstance(value, (str, bytes, int, float)):
        raise TypeError(f"the header {name} must be a str, bytes or a number, not {type(value).__name__}")
    # A header is sent as UTF-8, so these bytes arrive as they are.
    return value.decode() if isinstance(value, bytes) else well_formed(value)


def _is_form(data: Body) -> TypeGuard[Form]:
    if isinstance(data, Mapping):
        return True
    # Not what is no pair, so that as_bytes refuses it.
    return isinstance(data, (list, tuple)) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in data)


def _encoded(values: Form) -> str:
    """As a query or a form, as `requests` has it: a name once for each value of a list; what is None is left out."""
    pairs = []
    for name, value in values.items() if isinstance(values, Mapping) else values:
        several = value if isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray)) else [value]
        pairs += [(name, one) for one in several if one is not None]
    return urlencode(pairs)


def _milliseconds(timeout: Timeout) -> Optional[int]:
    parts = timeout if isinstance(timeout, tuple) else (timeout,)
    seconds = [part for part in parts if part is not None]
    return max(0, math.ceil(sum(seconds) * 1000)) if len(seconds) == len(parts) else None
