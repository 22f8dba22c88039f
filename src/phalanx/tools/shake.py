"""`phalanx shake FILE[:KERNEL]`: launches on the GPU with random delays, and the few of them that matter."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from phalanx.errors import Error
from phalanx.language.examples import Launch
from phalanx.runtime.shaking import DelaySite, ShakenLaunch, delay_sites, fewest
from phalanx.runtime.tuning.process import Worker
from phalanx.runtime.tuning.worker import Failed
from phalanx.tools.output import CLEAN, FOUND, UNABLE, complain, say
from phalanx.tools.user_files import declared

CODE = "import sys; sys.path[:] = sys.argv[2:]; from phalanx.tools.shake import work; work()"
LIMIT_S = 60.0
"""What a trial may take, the first of a process with all that is compiled for it."""


class Session:
    """What a process that may be lost does: it reads the file and tries launches with delays."""

    def __init__(self) -> None:
        self.launch: ShakenLaunch | None = None

    def prepare(self, target: str, number: int) -> None:
        """Reads the file, and runs one of its launches in the simulator."""
        found = declared(target)[number]
        self.launch = ShakenLaunch(found.bound, found.args, found.constants)

    def trial(self, seed: int, sites: tuple[int, ...] | None) -> str:
        """What goes wrong with these delays; empty where nothing does."""
        assert self.launch is not None
        return self.launch.trial(seed, sites)

    def is_lost(self) -> bool:
        """Whether the process is of no more use: whatever raised in a trial may have taken the GPU's context."""
        return True


def work() -> None:
    """The program of that process."""
    from phalanx.runtime.tuning.worker import main

    main(Session())


class Trials:
    """Asks a process for trials, and starts another one after each that was lost."""

    def __init__(self, target: str, number: int, worker: Any = None) -> None:
        self.target, self.number = target, number
        self.worker = Worker(CODE) if worker is None else worker

    def __call__(self, seed: int, sites: tuple[int, ...] | None = None) -> str:
        """What goes wrong with these delays; empty where nothing does."""
        if not self.worker.is_running:
            self.worker.ask("prepare", self.target, self.number, limit=LIMIT_S)
        try:
            wrong: str = self.worker.ask("trial", seed, sites, limit=LIMIT_S)
        except Failed as failed:
            if failed.status == "fails":
                raise  # by itself, whatever its agents do
            return f"it {failed.status}: {failed.note}"
        return wrong


def shake(
    file: Annotated[str, typer.Argument(help="A file that launches kernels or has @px.example; FILE:KERNEL takes one.")],
    seeds: Annotated[int, typer.Option(help="How many seeds are tried.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 0,
) -> None:
    """Launches the kernels of a file on the GPU with random delays at waits, arrivals and copies; needs a GPU.

    Results must be those of the simulator, whatever is late. Of a seed that fails, the fewest delays that still do are
    found, and printed by their lines. Exits with 0 where no seed fails, 1 where one does, 2 where it can't run.
    """
    from phalanx.runtime.device.driver import get_driver, has_gpu

    try:
        launches = declared(file)
        if not has_gpu():
            raise Error(
                "phalanx shake runs kernels on a GPU, and there is none",
                remedy="px.check and px.explore try other orders of events in the simulator",
            )
        arch = get_driver().device(0).arch
        texts = [
            shaken_text(launch, delay_sites(launch.bound, launch.args, launch.constants, arch), Trials(file, number),
                        range(seed, seed + seeds))
            for number, launch in enumerate(launches)
        ]  # fmt: skip
    except Error as error:
        complain(str(error))
        raise typer.Exit(UNABLE) from None
    except Failed as failed:
        complain(f"{file} can't be launched on the GPU: {failed.note}")
        raise typer.Exit(UNABLE) from None
    for text, _ in texts:
        say(text)
    raise typer.Exit(FOUND if any(failed for _, failed in texts) else CLEAN)


def shaken_text(launch: Launch, sites: list[DelaySite], trials: Any, seeds: range) -> tuple[str, bool]:
    """What a person reads of one launch, and whether it failed."""
    for seed in seeds:
        wrong = trials(seed)
        if sys.stderr.isatty():
            print(f"\r{launch.name}: seed {seed}", end="", file=sys.stderr)
        if wrong:
            break
    else:
        return f"{launch.name}: right with {len(seeds)} seeds, delays at {len(sites)} places", False
    least = fewest([site.number for site in sites], lambda part: trials(seed, part))
    count = f"{len(least)} of {len(sites)} delays are enough" if len(least) > 1 else "one delay is enough"
    lines = [f"{launch.name}: wrong with seed {seed}: {wrong}; {count}:"]
    lines += [f"  {site}" for site in sites if site.number in least]
    lines.append(f"  again, with all delays: {launch.name}[grid].run(..., jitter={seed})")
    return "\n".join(lines), True
