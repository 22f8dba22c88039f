"""What the command prints, and the codes it exits with."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any

from phalanx.errors import Error

CLEAN = 0
FOUND = 1
"""Exit code of a command that has found something."""
UNABLE = 2
"""The command could not do its work: a mistake on the command line, in the file, on the machine."""
INTERRUPTED = 130
"""Exit code of a command that control-C ended, as shells have it."""
UNREAD = 141
"""Exit code of a command whose reader had gone before it was through, as shells have it."""

CODES = "Exit codes: 0 done, nothing found; 1 findings; 2 it could not be done; 130 interrupted; 141 nobody read the output."


class Unwritten(Exception):
    """The output could not be written."""

    def __init__(self, problem: OSError) -> None:
        super().__init__(problem.strerror)
        self.code = UNREAD if problem.errno == errno.EPIPE else UNABLE


def say(text: Any) -> None:
    """Prints a line, or whatever rich can show, to the standard output."""
    shown = text if isinstance(text, str) else rendered(text)
    try:
        sys.stdout.write(shown if shown.endswith("\n") else shown + "\n")
        sys.stdout.flush()
    except OSError as problem:
        raise Unwritten(problem) from None


def rendered(item: Any) -> str:
    """Text as rich shows it on this terminal."""
    from rich.console import Console

    console = Console(soft_wrap=True)
    with console.capture() as captured:
        console.print(item)
    return captured.get()


def complain(text: str) -> None:
    """A message on the standard error, as it is."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody is left to be told


def guarded(work: Callable[[], Any]) -> int:
    """The exit code of a command, with one message where it could not do its work, and never a traceback of ours."""
    try:
        code = work()
        sys.stdout.flush()
        return code if isinstance(code, int) else CLEAN
    except Error as error:
        complain(str(error))
        return UNABLE
    except Unwritten as problem:
        return unwritten(problem)
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as problem:
        if sys.stdout is not None and problem.filename is None:
            return unwritten(Unwritten(problem))
        complain(f"{problem.filename}: {problem.strerror}")
        return UNABLE


def unwritten(problem: Unwritten) -> int:
    """Says so where anybody may still read it, and keeps Python from trying again at its end."""
    if problem.code != UNREAD:
        complain(f"the output can't be written: {problem}")
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # no file behind it
        pass
    finally:
        os.close(null)
    return problem.code
