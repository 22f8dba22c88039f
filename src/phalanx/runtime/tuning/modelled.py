"""Candidates of a search on the model of time."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error
from phalanx.ir.archs import Arch
from phalanx.runtime.choosing.estimates import estimate, planned
from phalanx.runtime.launch.specialise import Argument
from phalanx.runtime.tuning.worker import Failed, first_line


def time_on_model(candidate: Any, arguments: list[Argument], arch: Arch) -> None:
    """Gives a candidate its time on the model of time, or takes it out where it does not compile or fit.

    One that the model can't time stays in the search, without a time.
    """
    try:
        made = planned(candidate.function, arch)
    except Error as error:
        candidate.fail(Failed("does not compile", first_line(error)))
        return
    try:
        candidate.estimate = estimate(made, candidate.fitting or candidate.grid, arguments)
    except Error as error:
        candidate.note = f"no time on the model: {first_line(error)}"
