"""What a handler is given beside its payload: the run, the signal, and what the host keeps and knows."""

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Mapping, Optional, TypeVar, Union

from ._errors import Cancelled, storage_error
from ._host import ContractError, current, well_formed

Data = Union[bytes, bytearray, memoryview, str]
T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Run:
    """The run a handler was started for."""

    id: str
    """Names the run across all its attempts."""
    tenant: str
    job: str
    slot_ms: int
    """When the run was due, in milliseconds since the Unix epoch, UTC."""
    attempt: int
    """1 for the first start; each takeover adds one."""
    max_attempts: int
    fence: int
    """Grows strictly from win to win of a job: for systems that can refuse the older of two writers."""
    reason: str
    """`schedule`, `catch-up`, `takeover` or `on-demand`; more words may come."""
    metadata: Mapping[str, str]

    @property
    def slot(self) -> datetime:
        return _EPOCH + timedelta(milliseconds=self.slot_ms)


class Signal:
    """The host's signal: whether the handler must stop, and why."""

    @property
    def stopped(self) -> bool:
        """True once the lease is lost, the host is stopping, the run was cancelled or its time is up."""
        return not current().should_continue()

    @property
    def reason(self) -> Optional[str]:
        """`lost`, `stopping`, `cancelled` or `deadline`; more words may come. None while there is none."""
        return current().stop_reason()

    @property
    def remaining(self) -> Optional[timedelta]:
        """How long until the host interrupts the attempt by force, where that is known."""
        ms = current().remaining_ms()
        # More than a timedelta can say is as good as unknown.
        return None if ms is None or ms > 10**15 else timedelta(milliseconds=ms)

    def raise_if_stopped(self) -> None:
        """For before every side effect and every long loop. Raises `Cancelled`."""
        if self.stopped:
            raise Cancelled(self.reason)


class State:
    """The run's checkpoint, of at most 1 MiB: what one attempt saves, the next one loads."""

    def load(self) -> Any:
        """What was saved last, from JSON; None when nothing was."""
        data = self.load_bytes()
        return None if data is None else json.loads(data)

    def save(self, value: Any) -> None:
        """Saves a value as JSON. It is durable before this returns."""
        self.save_bytes(json.dumps(value, ensure_ascii=False).encode())

    def load_bytes(self) -> Optional[bytes]:
        return _stored(current().state_load)

    def save_bytes(self, data: Data) -> None:
        _stored(current().state_save, as_bytes(data))


class Kv:
    """The tenant's key-value space, shared by all its jobs. Values are bytes; a str is kept as UTF-8."""

    def get(self, key: str) -> Optional[bytes]:
        return _stored(current().kv_get, _key(key))

    def get_text(self, key: str) -> Optional[str]:
        value = self.get(key)
        return None if value is None else value.decode()

    def set(self, key: str, value: Data) -> None:
        _stored(current().kv_set, _key(key), as_bytes(value))

    def delete(self, key: str) -> bool:
        """False when there was none."""
        return _stored(current().kv_delete, _key(key))

    def list(self, prefix: str = "", after: Optional[str] = None, limit: int = 1000) -> "list[str]":
        """Keys that begin with `prefix`, in the order of their bytes, after `after`; never more than 1000."""
        last = None if after is None else _key(after)
        return _stored(current().kv_list, _key(prefix), last, max(0, min(limit, 1000)))

    def compare_and_set(self, key: str, expected: Optional[Data], value: Data) -> bool:
        """Sets a value if the present one is `expected` (None: if there is none). False when it is not."""
        present = None if expected is None else as_bytes(expected)
        return _stored(current().kv_compare_and_set, _key(key), present, as_bytes(value))


class Config:
    """Settings the operator gave the tenant and the job's manifest asks for."""

    def get(self, key: str, default: Optional[str] = None) -> Optional[str]:
        """A secret yields a placeholder, which the host replaces on its way to where it was granted for."""
        value = current().config(well_formed(key))
        return default if value is None else value


class Context:
    def __init__(self, run: Run, payload: bytes) -> None:
        self.run = run
        self.payload = payload
        """The payload's bytes, whatever the handler takes as its input."""
        self.signal = Signal()
        self.state = State()
        self.kv = Kv()
        self.config = Config()

    def sleep(self, seconds: "float | timedelta") -> None:
        """Waits. Raises `Cancelled`, at once, when the attempt must stop before the time is over."""
        if isinstance(seconds, timedelta):
            seconds = seconds.total_seconds()
        if seconds < 0:
            raise ValueError(f"sleep: {seconds} must not be negative")
        # Rounded up, so that nobody waits for less than was asked.
        if not current().sleep(min(math.ceil(seconds * 1000), 2**63)):
            raise Cancelled(self.signal.reason)

    def progress(self, done: int, total: Optional[int] = None, message: str = "") -> None:
        """Says how far the run is. The newest report wins."""
        current().progress(_count("done", done), None if total is None else _count("total", total), well_formed(message))

    def idempotency_key(self, operation: str) -> str:
        """A key for one named operation of this run, the same in every attempt."""
        return current().idempotency_key(well_formed(operation))


def _count(name: str, value: int) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{name} must be from 0 to 2**64 - 1, not {value}")
    return value


def _key(key: str) -> str:
    # Of other things str() would make a key that nobody meant.
    if not isinstance(key, str):
        raise TypeError(f"a key must be a str, not {type(key).__name__}")
    return well_formed(key)


def as_bytes(data: object) -> bytes:
    if isinstance(data, str):
        return data.encode()
    # Of a number, bytes() would make as many zeros.
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"must be bytes, bytearray, memoryview or str, not {type(data).__name__}")
    return bytes(data)


def _stored(operation: Callable[..., T], *arguments: Any) -> T:
    try:
        return operation(*arguments)
    except ContractError as error:
        raise storage_error(error) from None
