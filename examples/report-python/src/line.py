"""One line of the common or the combined log format:

    host ident user [time] "method path protocol" status bytes ["referer" "agent" …]
"""

import re
from dataclasses import dataclass
from typing import Optional

# White space is ASCII's; what stands between two delimiters may have them behind a backslash.
_WORD = rb"[ \t\f\r]*([^ \t\f\r]+)(?=[ \t\f\r]|$)"
_TIME = rb"[ \t\f\r]*\[(?:\\.|[^\\\]])*\]"
_REQUEST = rb'[ \t\f\r]*"((?:\\.|[^\\"])*)"'
_LINE = re.compile(_WORD + _WORD + _WORD + _TIME + _REQUEST + _WORD + _WORD, re.DOTALL)


@dataclass(frozen=True)
class Line:
    """What the report needs of a line."""

    path: str
    """Without its query; `-` when the request is not of HTTP's form, as with probes that speak TLS to a plain port."""
    status: int
    bytes: int
    """Size of the response without its head; the format's `-` means none."""


def parse(text: bytes) -> Optional[Line]:
    """None when the line is not of this format."""
    parts = _LINE.match(text)
    if not parts:
        return None
    request, status, size = parts.group(4, 5, 6)
    code, length = _number(status), 0 if size == b"-" else _number(size)
    if code is None or length is None or not 100 <= code < 1000:
        return None
    return Line(_path(request), code, length)


def _number(digits: bytes) -> Optional[int]:
    """As large as 64 bits can be."""
    if not digits.isdigit() or len(digits) > 20:
        return None
    number = int(digits)
    return number if number < 1 << 64 else None


def _path(request: bytes) -> str:
    """The path of `GET /a?b HTTP/1.1`."""
    parts = request.split(b" ")
    if len(parts) != 3 or not parts[1]:
        return "-"
    return parts[1].split(b"?", 1)[0].decode("utf-8", "replace")
