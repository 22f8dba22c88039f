"""`@px.autotune`: a kernel that measures its candidates at the first call with new sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from phalanx.errors import Error, caller_location
from phalanx.language.inlined import by_name
from phalanx.language.kernel import Kernel, call_with_constants
from phalanx.runtime.choosing.candidates import named
from phalanx.runtime.device.arrays import describe
from phalanx.runtime.launch.dispatch import BoundLaunch
from phalanx.runtime.tuning.given import FEW, list_of_configs
from phalanx.runtime.tuning.result import Tuned
from phalanx.runtime.tuning.search import tune

Prune = Callable[..., bool]


def autotune(
    kernel: Any = None, *, configs: Iterable[dict[str, Any]] | None = None, key: Sequence[str] | None = None,
    prune: Prune | None = None, best: int = FEW, **search: Any,
) -> Any:
    """Makes a kernel that measures its candidates on the GPU at the first call with new sizes, and then takes the quickest.

    Decorates a kernel, above `@px.kernel`. The candidates are the kernel's constants that are `px.choose`, or `configs`,
    dicts of constants. `key` names the arguments whose change asks for a new search (default: all): arrays count by shape
    and type, numbers by value. `prune`, a function of constants, says which candidates are tried at all; `best` is how many
    of them are measured, those that the model of time puts first. Everything else goes to `px.tune`, which searches: on
    copies of the arguments, in a process of its own, kept on disk. Where the arguments are host arrays there is no GPU to
    measure on: the model of time chooses. `kernel.tuned` has what the searches found, by key. Needs a GPU to measure.
    Example::

        @px.autotune(key=["A", "B"], prune=lambda BM, BN: BM * BN <= 128 * 256)
        @px.kernel(warps=8)
        def gemm(A, B, C, *, BM=px.choose(64, 128, 256), BN=px.choose(64, 128, 256), BK=64):
            ...
    """

    def wrap(target: Any) -> Autotuned:
        if not isinstance(target, Kernel):
            raise Error(
                f"@px.autotune decorates a kernel, not {type(target).__name__}", location=caller_location(),
                remedy="write it above @px.kernel: @px.autotune(...), then @px.kernel(...), then the def",
            )
        for name in key or ():
            if name not in target.parameters:
                raise Error(
                    f"@px.autotune(key=) names '{name}', which is no argument of kernel '{target.name}'",
                    location=caller_location(), remedy=f"its arguments are {', '.join(target.parameters)}",
                )
        tried = pruned(target, list_of_configs(target, configs), prune)
        return Autotuned(target, tried, None if key is None else tuple(key), best, search)

    return wrap if kernel is None else wrap(kernel)


def pruned(kernel: Kernel, configs: list[dict[str, Any]], prune: Prune | None) -> list[dict[str, Any]]:
    """The configurations that a user's function of the constants lets through; an error where there are none."""
    if prune is None:
        return configs
    kept = [config for config in configs if call_with_constants(kernel, "prune=", prune, kernel.bind_constants(config))]
    if not kept:
        raise Error(
            f"prune= lets none of the {len(configs)} configurations of kernel '{kernel.name}' through",
            location=kernel.location,
            details="\n".join(map(named, configs[:FEW])),
            remedy="it returns True for constants that are to be tried",
        )
    return kept


class Autotuned:
    """A kernel that is tuned when it is called: `autotuned[grid](...)`. What else is asked of it, its kernel answers."""

    def __init__(
        self, kernel: Kernel, configs: list[dict[str, Any]], key: tuple[str, ...] | None, best: int, search: dict[str, Any]
    ) -> None:
        self.kernel = kernel
        self.configs = configs
        self.key = key
        self.best = best
        self.search = search
        self.tuned: dict[Any, Tuned] = {}
        """What searches found, by the sizes that they were for."""

    def __getitem__(self, grid: Any) -> TunedLaunch:
        return TunedLaunch(self, grid)

    def __getattr__(self, name: str) -> Any:
        if name == "kernel":  # of one that is being unpickled
            raise AttributeError(name)
        return getattr(self.kernel, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """By module and name, as kernels are: another process imports it."""
        return by_name(self, self.kernel.fn)

    def __repr__(self) -> str:
        return f"<autotuned {self.kernel.name}: {len(self.configs)} configurations>"

    def sizes_of(self, args: Sequence[Any], constants: dict[str, Any]) -> Any:
        """What a search is for: shapes and types of arrays, numbers, and the constants that were given."""
        names = self.kernel.parameters
        wanted = names if self.key is None else self.key
        found = [
            (tuple(value.shape), str(value.dtype)) if hasattr(value, "shape") else value
            for name, value in zip(names, self.kernel.spread(args))
            if name in wanted
        ]
        return (*found, *sorted(constants.items()))

    def config_for(self, grid: Any, args: Sequence[Any], constants: dict[str, Any]) -> dict[str, Any]:
        """The quickest configuration for a call, searched for where there was none like it."""
        sizes = self.sizes_of(args, constants)
        found = self.tuned.get(sizes)
        if found is None:
            found = self.tuned[sizes] = self.searched(grid, args, constants)
        return found.best

    def searched(self, grid: Any, args: Sequence[Any], constants: dict[str, Any]) -> Tuned:
        """What px.tune finds; on host arrays by the model of time alone."""
        configs = []
        for config in self.configs:
            config = {**config, **constants}
            if config not in configs:
                configs.append(config)
        infos = [describe(value) for value in self.kernel.spread(args)]
        if any(info is not None and info.kind == "cuda" for info in infos) or "measure" in self.search:
            return tune(self.kernel, configs, args, grid=grid, **{"best": self.best, "quiet": True, **self.search})
        return tune(self.kernel, configs, args, grid=grid, on="model")


class TunedLaunch(BoundLaunch):
    """An autotuned kernel with its grid. Tools that run no launch take the kernel's own choice, by the model of time."""

    __slots__ = ("autotuned",)

    def __init__(self, autotuned: Autotuned, grid: Any) -> None:
        super().__init__(autotuned.kernel, grid)
        self.autotuned = autotuned

    def __call__(self, *args: Any, **constants: Any) -> None:
        super().__call__(*args, **{**self.autotuned.config_for(self.grid, args, constants), **constants})

    def __reduce__(self) -> tuple[Any, ...]:
        return TunedLaunch, (self.autotuned, self.grid)


__all__ = ["Autotuned", "TunedLaunch", "autotune"]
