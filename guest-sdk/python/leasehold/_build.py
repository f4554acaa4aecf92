"""What a plugin's modules say while it is built, and why they fail, for build.py: componentize-py keeps the one to itself
where nothing fails, and surrounds the other with its own trace."""

import os
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator, Optional

SAID = "said.txt"
FAILED = "failed.txt"


@contextmanager
def listen(folder: Path) -> Iterator[None]:
    """Writes into the folder, in which the plugin begins, what is printed meanwhile, and what was raised."""
    said: list[str] = []
    streams = (sys.stdout, sys.stderr)
    for stream in streams:
        # Not another stream in its place: a logger that was set up meanwhile would keep that one.
        stream.write = _also(said, stream.write)  # type: ignore[method-assign]
    try:
        yield
    except BaseException as error:
        (folder / FAILED).write_text(_own(error, folder), encoding="utf-8", errors="replace")
        raise
    finally:
        for stream in streams:
            del stream.write
        (folder / SAID).write_text("".join(said), encoding="utf-8", errors="replace")


def _also(said: "list[str]", write: Callable[[str], int]) -> Callable[[str], int]:
    def both(text: str) -> int:
        said.append(text)
        return write(text)

    return both


def _own(error: BaseException, folder: Path) -> str:
    """The author's own traceback: this package and what builds the plugin are no part of it."""
    ours = (f"{folder}{os.sep}", f"{os.path.dirname(__file__)}{os.sep}")
    told = traceback.TracebackException.from_exception(error)
    link: Optional[traceback.TracebackException] = told
    while link is not None:
        link.stack = traceback.StackSummary.from_list([at for at in link.stack if not at.filename.startswith(ours)])
        link = link.__cause__ or link.__context__
    return "".join(told.format())
