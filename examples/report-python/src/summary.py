"""What the lines add up to."""

from typing import Optional

from line import parse

LISTED_PATHS = 10
"""How many paths are listed; the rest is added up."""
DISTINCT_PATHS = 10_000
"""How many paths are told apart: a scanner that asks for random paths must not fill the memory."""
_MOST = (1 << 64) - 1


class Counts:
    """Grows line by line."""

    def __init__(self) -> None:
        self.lines = 0
        self.malformed = 0
        self._statuses: dict[int, int] = {}
        self._paths: dict[str, list[int]] = {}  # count and bytes of each
        self._other = [0, 0]
        self._sizes: list[int] = []

    def add(self, text: bytes) -> None:
        self.lines += 1
        line = parse(text)
        if line is None:
            self.malformed += 1
            return
        self._statuses[line.status] = self._statuses.get(line.status, 0) + 1
        self._sizes.append(line.bytes)
        if line.path not in self._paths and len(self._paths) < DISTINCT_PATHS:
            self._paths[line.path] = [0, 0]
        _add(self._paths.get(line.path, self._other), 1, line.bytes)

    def summary(self) -> dict:
        # The most asked for first.
        paths = sorted(self._paths.items(), key=lambda item: (-item[1][0], item[0]))
        other = list(self._other)
        for _, (count, size) in paths[LISTED_PATHS:]:
            _add(other, count, size)
        return {
            "lines": self.lines,
            "malformed": self.malformed,
            "bytes": min(sum(self._sizes), _MOST),
            "by_status": {str(status): count for status, count in sorted(self._statuses.items())},
            "by_path": [{"path": path, "count": n, "bytes": size} for path, (n, size) in paths[:LISTED_PATHS]],
            "other_paths": {"count": other[0], "bytes": other[1]},
            "response_size": _percentiles(sorted(self._sizes)),
        }


def _add(counts: "list[int]", count: int, size: int) -> None:
    counts[0] += count
    # A log can claim any size; a sum of more than 64 bits stays at the largest number.
    counts[1] = min(counts[1] + size, _MOST)


def _percentiles(ordered: "list[int]") -> Optional[dict]:
    """Bytes; each the smallest size that so many percent of the responses do not exceed."""
    if not ordered:
        return None

    def at(percent: int) -> int:
        return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]

    return {"p50": at(50), "p90": at(90), "p99": at(99), "max": at(100)}
