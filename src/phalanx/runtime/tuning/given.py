"""What `px.tune` is given: a kernel with its grid or a function, configurations, a reference; mistakes have remedies."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.language.choose import Choose
from phalanx.language.kernel import Kernel
from phalanx.language.reader.capture import kind_of
from phalanx.runtime.choosing.candidates import chosen_part, combinations, has_choice
from phalanx.runtime.launch.dispatch import BoundLaunch

FEW = 8
"""Combinations of `px.choose` that are measured: those that the model takes for the quickest."""


def mistake(message: str, remedy: str) -> Error:
    """The error for what a call of px.tune should not have."""
    return Error(message, location=caller_location(), remedy=remedy)


def target_of(kernel: Any, grid: Any) -> tuple[Any, Any]:
    """The kernel and its grid, or the function."""
    if isinstance(kernel, BoundLaunch):
        if grid is not None:
            raise mistake("px.tune was given a grid twice", "write kernel[grid] or grid=..., not both")
        return kernel.kernel, kernel.grid
    if isinstance(kernel, Kernel):
        if grid is None:
            raise mistake(
                f"px.tune needs a grid for kernel '{kernel.name}'", "pass grid=, a value or a function of the constants"
            )
        return kernel, grid
    if not callable(kernel):
        raise mistake(
            f"px.tune takes a kernel or a function, not {type(kernel).__name__}",
            "write px.tune(kernel, configs, arguments, grid=...)",
        )
    if grid is not None:
        raise mistake("px.tune takes no grid for a function", "the function launches its kernels itself: leave grid= out")
    return kernel, None


def list_of_configs(target: Any, configs: Iterable[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """The configurations, each a dict of constants that the kernel has; candidates of `px.choose` one by one.

    None stands for all combinations of the kernel's own candidates.
    """
    if isinstance(configs, dict):
        raise mistake("the configurations are a dict, not a list of dicts", "write [dict(BM=64), dict(BM=128)]")
    if configs is None:
        constants = target.constants if isinstance(target, Kernel) else {}
        if not has_choice(constants):
            raise mistake(
                "px.tune has no configuration to try",
                "pass a list of dicts, [dict(BM=64), dict(BM=128)], or give the kernel candidates: BM=px.choose(64, 128)",
            )
        return [chosen_part(constants, candidate) for candidate in combinations(target, constants)]
    chosen = []
    for config in configs:
        check_config(target, config, "a configuration")
        open_ones = {name: value.values for name, value in config.items() if type(value) is Choose}
        chosen += [{**config, **dict(zip(open_ones, values))} for values in product(*open_ones.values())]
    if not chosen:
        raise mistake("px.tune has no configuration to try", "pass a list of dicts: [dict(BM=64), dict(BM=128)]")
    return chosen


def check_config(target: Any, config: Any, what: str) -> None:
    """Refuses a configuration that is no dict, or names a constant that the kernel lacks."""
    if not isinstance(config, dict) or not all(isinstance(name, str) for name in config):
        raise mistake(f"{what} is {config!r}", "a configuration is a dict of constants: dict(BM=64)")
    if isinstance(target, Kernel):
        target.bind_constants(config)  # raises for a constant that the kernel does not have


def check_reference(target: Any, reference: Any) -> None:
    """A function, or a configuration that is known to be right."""
    if isinstance(reference, dict):
        check_config(target, reference, "the reference configuration")
    elif reference is not None and not callable(reference):
        raise mistake(
            f"reference= is {kind_of(reference)}, neither a function nor a configuration",
            "pass a function that returns what is expected, or a configuration that is known to be right: dict(BM=64)",
        )


def how_many(target: Any, configs: object, on: object, best: object) -> int | None:
    """How many of the model's best are measured: as given, else a few of the kernel's own candidates; None for all."""
    if on not in (None, "model"):
        raise mistake(f"on={on!r}", 'it is "model", which ranks without a GPU, or left out')
    if best is not None and (not isinstance(best, int) or isinstance(best, bool) or best < 1):
        raise mistake(f"best={best!r}", "it is how many configurations are measured: 1 or more")
    if not isinstance(target, Kernel) and (on is not None or best is not None):
        raise mistake(
            f"{'on=' if on is not None else 'best='} needs a kernel: the model of time can't look into a function",
            "tune its kernels one by one",
        )
    if on is not None and best is not None:
        raise mistake('best= is for a search that measures, and on="model" measures nothing', "leave one of them out")
    return FEW if best is None and configs is None and on is None else best  # type: ignore[return-value]
