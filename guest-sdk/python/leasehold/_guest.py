"""The plugin's export, over the bindings of the world `job`. Can be imported inside a plugin only."""

# What the standard library imports only when it is used, and a running plugin has no files to find it in. By UTF-16 and
# UTF-32 json.loads reads bytes that begin with zeros.
import _strptime  # noqa: F401
import encodings.ascii  # noqa: F401
import encodings.cp1252  # noqa: F401
import encodings.latin_1  # noqa: F401
import encodings.utf_8_sig  # noqa: F401
import encodings.utf_16  # noqa: F401
import encodings.utf_16_be  # noqa: F401
import encodings.utf_16_le  # noqa: F401
import encodings.utf_32  # noqa: F401
import encodings.utf_32_be  # noqa: F401
import encodings.utf_32_le  # noqa: F401
import random
from typing import Any, Callable, Optional

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import config, control, http, kv, log, progress, state, types

from . import _logging
from ._context import Context, Run
from ._errors import Cancelled, Failure, failure
from ._handler import call, registered
from ._host import ContractError, set_host, well_formed


class Handler(exports.Handler):
    def handle(self, run: types.RunInfo, input: bytes) -> bytes:
        set_host(_Host())
        # Its state is that of the moment the plugin was built: every run would draw the same numbers.
        random.seed()
        _logging.start()
        try:
            return call(registered(), Context(_run(run), input))
        # SystemExit too: a handler's `sys.exit()` is no way to end a run.
        except BaseException as error:
            raise Err(_handler_error(failure(error))) from None


def _run(info: types.RunInfo) -> Run:
    return Run(
        id=info.run_id,
        tenant=info.tenant,
        job=info.job,
        slot_ms=info.slot_ms,
        attempt=info.attempt,
        max_attempts=info.max_attempts,
        fence=info.fence,
        reason=info.reason,
        metadata=dict(info.metadata),
    )


def _handler_error(error: "Failure | Cancelled") -> types.HandlerError:
    if isinstance(error, Cancelled):
        return types.HandlerError_Cancelled()
    details = [(well_formed(key), well_formed(value)) for key, value in error.details.items()]
    info = types.ErrorInfo(code=well_formed(error.code), message=well_formed(error.message), details=details)
    return types.HandlerError_Retryable(info) if error.kind == "retryable" else types.HandlerError_Permanent(info)


def _told(function: Callable[..., Any], *arguments: Any) -> Any:
    """The bindings raise the contract's error as a class for each case, such as KvError_TooLarge."""
    try:
        return function(*arguments)
    except Err as error:
        words = type(error.value).__name__.partition("_")[2]
        case = "".join("-" + letter.lower() if letter.isupper() else letter for letter in words).lstrip("-")
        raise ContractError(case, getattr(error.value, "value", None)) from None


class _Host:
    should_continue = staticmethod(control.should_continue)
    stop_reason = staticmethod(control.stop_reason)
    remaining_ms = staticmethod(control.remaining_ms)
    sleep = staticmethod(control.sleep)
    idempotency_key = staticmethod(control.idempotency_key)
    progress = staticmethod(progress.update)
    config = staticmethod(config.get)

    def max_level(self) -> str:
        return log.max_level().name.lower()

    def emit(self, level: str, target: str, message: str, fields: "list[tuple[str, str]]") -> None:
        log.emit(log.Level[level.upper()], target, message, fields)

    def state_load(self) -> Optional[bytes]:
        return _told(state.load)

    def state_save(self, data: bytes) -> None:
        _told(state.save, data)

    def kv_get(self, key: str) -> Optional[bytes]:
        return _told(kv.get, key)

    def kv_set(self, key: str, value: bytes) -> None:
        _told(kv.set, key, value)

    def kv_delete(self, key: str) -> bool:
        return _told(kv.delete, key)

    def kv_list(self, prefix: str, after: Optional[str], limit: int) -> "list[str]":
        return _told(kv.list_keys, prefix, after, limit)

    def kv_compare_and_set(self, key: str, expected: Optional[bytes], value: bytes) -> bool:
        return _told(kv.compare_and_set, key, expected, value)

    def send(
        self,
        method: str,
        url: str,
        headers: "list[tuple[str, str]]",
        body: Optional[bytes],
        timeout_ms: Optional[int],
    ) -> "tuple[int, list[tuple[str, str]], bytes]":
        asked = http.Request(method=method, url=url, headers=headers, body=body, timeout_ms=timeout_ms)
        answer = _told(http.send, asked)
        return answer.status, answer.headers, answer.body
