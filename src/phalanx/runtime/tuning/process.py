"""Worker processes: started without the caller's script, asked one thing at a time, killed when they take too long.

A kernel that hangs can't be stopped from its own process, and one that traps takes the CUDA context with it. So all
candidates run in a process that may be lost.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from multiprocessing import Pipe
from typing import Any

from phalanx.runtime.tuning.worker import Failed, Session, failure_of

INSIDE = "PHALANX_TUNING_WORKER"
"""Set in the environment of workers: a script that calls px.tune when it is imported must not start another search."""
CODE = "import sys; sys.path[:] = sys.argv[2:]; from phalanx.runtime.tuning.worker import main; main()"
LEAVING_S = 10.0
"""How long a killed process may take to be gone: the driver first ends its kernels."""


class WorkerLost(Failed):
    """The candidate took its process with it; the next request starts another."""


class Worker:
    """A process that answers requests to a session; it starts at the first one and again after it was lost.

    `code` is its program, which gets the number of a pipe's end as its first argument, and then the search path.
    """

    def __init__(self, code: str = CODE) -> None:
        self.code = code
        self.process: subprocess.Popen[bytes] | None = None
        self.connection: Any = None
        self.log: Any = None
        self.words = ""

    @property
    def is_running(self) -> bool:
        """Whether there is a process to ask."""
        return self.process is not None

    def start(self) -> None:
        """Starts the process, with a pipe to it; what it prints goes to a file."""
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)
        ours, theirs = Pipe()
        environment = {**os.environ, INSIDE: "1"}
        command = [sys.executable, "-P", "-c", self.code, str(theirs.fileno()), *(p for p in sys.path if isinstance(p, str))]
        self.process = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=environment,
            stdout=self.log, stderr=self.log,
        )
        theirs.close()
        self.connection = ours

    def ask(self, name: str, *arguments: Any, limit: float) -> Any:
        """The answer; `Failed` with what the candidate did, `WorkerLost` if the process is gone with it."""
        if self.process is None:
            self.start()
        assert self.process is not None
        try:
            self.connection.send((name, arguments))
            if not self.connection.poll(limit):
                self.process.kill()
                self.kill()
                raise WorkerLost("hangs", f"no end after {limit:g} s: its process was killed")
            kind, *rest = self.connection.recv()
        except (EOFError, OSError):
            code = self.kill()
            said = f": {self.words}" if self.words else ""
            raise WorkerLost("crashes", f"its process ended with status {code}{said}") from None
        if kind == "done":
            return rest[0]
        status, note, lost = rest
        if lost:
            self.kill()
            raise WorkerLost(status, note)
        raise Failed(status, note)

    def kill(self) -> int | None:
        """Ends the process, and waits until it is gone; `words` keeps the last line it wrote."""
        process, self.process = self.process, None
        if process is None:
            return None
        self.connection.close()
        code = process.poll()
        if code is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(0.5)  # a closed connection ends it, unless it is stuck
        if code is None:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(LEAVING_S)
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        self.words = lines[-1].strip() if lines else ""
        self.log.close()
        return code


class Here:
    """A worker in this process, for functions that can't travel; nothing ends one that hangs."""

    is_running = False

    def __init__(self) -> None:
        self.session: Session | None = None

    def ask(self, name: str, *arguments: Any, limit: float) -> Any:
        """Answers a request to the session here; `Failed` with what the candidate did."""
        if self.session is None:
            self.session = Session()
        self.is_running = True
        try:
            return getattr(self.session, name)(*arguments)
        except Exception as problem:
            raise failure_of(problem) from None

    def kill(self) -> None:
        """Drops the session; the next request begins another."""
        self.session = None
        self.is_running = False
