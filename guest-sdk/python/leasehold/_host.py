"""The host, as this package calls it: the real one inside a plugin (`_guest`), a double in tests (`testing`)."""

from typing import Optional, Protocol


class ContractError(Exception):
    """An error of the contract: its case, such as `too-large`, and what it carries."""

    def __init__(self, case: str, value: "str | int | None" = None) -> None:
        super().__init__(case, value)
        self.case = case
        self.value = value


class Host(Protocol):
    """Storage and requests raise `ContractError`."""

    def should_continue(self) -> bool: ...
    def stop_reason(self) -> Optional[str]: ...
    def remaining_ms(self) -> Optional[int]: ...
    def sleep(self, ms: int) -> bool: ...
    def idempotency_key(self, operation: str) -> str: ...
    def max_level(self) -> str: ...
    def emit(self, level: str, target: str, message: str, fields: list[tuple[str, str]]) -> None: ...
    def progress(self, done: int, total: Optional[int], message: str) -> None: ...
    def state_load(self) -> Optional[bytes]: ...
    def state_save(self, data: bytes) -> None: ...
    def kv_get(self, key: str) -> Optional[bytes]: ...
    def kv_set(self, key: str, value: bytes) -> None: ...
    def kv_delete(self, key: str) -> bool: ...
    def kv_list(self, prefix: str, after: Optional[str], limit: int) -> list[str]: ...
    def kv_compare_and_set(self, key: str, expected: Optional[bytes], value: bytes) -> bool: ...
    def config(self, key: str) -> Optional[str]: ...

    def send(
        self,
        method: str,
        url: str,
        headers: list[tuple[str, str]],
        body: Optional[bytes],
        timeout_ms: Optional[int],
    ) -> tuple[int, list[tuple[str, str]], bytes]: ...


_current: Optional[Host] = None


def set_host(host: Optional[Host]) -> Optional[Host]:
    """From now on `current()` is this one. Returns the one before."""
    global _current
    before, _current = _current, host
    return before


def current() -> Host:
    if _current is None:
        raise RuntimeError("there is no host here: in tests, call the handler with leasehold.testing")
    return _current


def well_formed(value: object) -> str:
    """As a text that has a form in UTF-8: a lone surrogate has none."""
    return str(value).encode("utf-8", "replace").decode("utf-8")
