"""A process on the GPU that may be lost: it takes cases, and gives back what became of them.

A kernel that goes wrong on a GPU takes the whole context with it. So the process that has the context does nothing else,
and a new one takes its place. It says when a case is compiled: a compiler that takes long is no kernel that hangs.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any, BinaryIO

COMPILING = float(os.environ.get("PHALANX_FUZZ_COMPILING", 60))
"""Seconds for the compiler: a few random kernels take it half a minute, as long as a hundred others."""
PATIENCE = 60.0
"""Seconds for what follows: a kernel that is not done by then hangs."""
COMPILED = "compiled"
ENDED = object()
TOLD = 4000
"""Characters of what a lost process has said that are told."""


class GpuFailure(Exception):
    """The kernel did not run to its end on the GPU."""


class GpuHang(GpuFailure):
    """It was still running when nobody waited for it any more."""


class SlowCompilation(Exception):
    """The compiler was not done in time: nothing is known of the case."""


class GpuRefusal(Exception):
    """The case was refused with a message that has a place."""


class GpuProcess:
    """Takes one case at a time; `begin` sends it, `finish` waits for what became of it.

    `command` starts a process that calls `child`. `compiling` and `patience`: seconds until it is given up.
    """

    def __init__(self, command: list[str], compiling: float = COMPILING, patience: float = PATIENCE) -> None:
        self._command, self._compiling, self._patience = command, compiling, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._said: BinaryIO | None = None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        atexit.register(self.stop)

    def begin(self, case: Any) -> None:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            environment = {**os.environ, "PHALANX_CACHE": "0", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            self._said = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said, env=environment
            )
            self._answers = queue.SimpleQueue()
            listening = threading.Thread(target=_listen, args=(self._process.stdout, self._answers), daemon=True)
            listening.start()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `finish` tells
            pickle.dump(case, self._process.stdin)
            self._process.stdin.flush()

    def finish(self) -> Any:
        """The answer of the process; or raises what became of the case instead."""
        answer = self._answer(self._compiling, SlowCompilation(f"not compiled within {self._compiling:.0f} s"))
        if answer == COMPILED:
            answer = self._answer(self._patience, GpuHang(f"no answer within {self._patience:.0f} s"))
        told, lost = answer
        if lost:
            self.stop()
        if isinstance(told, Exception):
            raise told
        return told

    def _answer(self, patience: float, late: Exception) -> Any:
        try:
            answer = self._answers.get(timeout=patience)
        except queue.Empty:
            self.stop()
            raise late from None
        if answer is not ENDED:
            return answer
        assert self._process is not None
        code, said = self._process.wait(), self._last_words()
        self.stop()
        raise GpuFailure(f"the process on the GPU ended with {code}\n{said}".rstrip())

    def _last_words(self) -> str:
        assert self._said is not None
        self._said.seek(0)
        return self._said.read().decode(errors="replace")[-TOLD:]

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # of what was not sent yet
                process.stdin.close()
        if self._said is not None:
            self._said.close()
            self._said = None


def _listen(source: BinaryIO, answers: queue.SimpleQueue[Any]) -> None:
    """Answers as they come: several may lie in the pipe at once."""
    with source:
        while True:
            try:
                answers.put(pickle.load(source))
            except Exception:  # there are no more, or the process died within one
                answers.put(ENDED)
                return


Run = Callable[[Any, Callable[[], None]], tuple[Any, bool]]
"""What a process does with a case, given a function to call once it is compiled: what it tells, and whether the context is
lost, with which it ends."""


def child(run: Run) -> None:
    """The process itself. What kernels print does not mix with the answers."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(run, sys.stdin.buffer, channel)


def serve(run: Run, source: BinaryIO, answers: BinaryIO) -> None:
    """Runs cases until there are no more, or until one has gone wrong."""

    def tell(answer: Any) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    lost = False
    while not lost:
        try:
            case = pickle.load(source)
        except EOFError:
            return
        told, lost = run(case, lambda: tell(COMPILED))
        tell((told, lost))


def compile_here(bound: Any, *arguments: Any) -> None:
    """Compiles a launch for the GPU of this process; a launch with arguments like these then finds it compiled."""
    import phalanx as px
    from phalanx.runtime.device.driver import get_driver

    px.compile(bound, *arguments, arch=get_driver().device(0).arch)
