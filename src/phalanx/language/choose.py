"""`px.choose`: a constant for which the compiler takes one of several values."""

from __future__ import annotations

from phalanx.errors import Error, caller_location
from phalanx.frozen import frozen


@frozen
class Choose:
    """What `px.choose` gives: the values that a constant may have, in the order in which they were written."""

    values: tuple[object, ...]

    def __repr__(self) -> str:
        return f"px.choose({', '.join(map(repr, self.values))})"


def choose(*values: object) -> Choose:
    """Stands for the one of several values of a kernel's constant with which a launch takes the least time on a model.

    Anyone may pass it, outside kernels: as a constant's default or at the launch, and as `warps=`, `cluster=` or
    `ctas_per_sm=` of `@px.kernel`. All combinations that compile and fit are ranked for the sizes of the call by the model
    of time that `px.trace` has (one card stands for each target); the simulator, the checks and the GPU take the same one.
    `phalanx explain` and `Compiled.notes` say which, and why. It is remembered, on disk too. Needs no GPU. Example::

        @px.kernel(warps=px.choose(4, 8), cluster=px.choose(1, 2))
        def gemm(A, B, C, *, BM=px.choose(64, 128), BN=px.choose(128, 256), BK=64):
            ...
    """
    if len(values) == 1:
        (value,) = values
        if isinstance(value, (list, tuple)):
            listed = ", ".join(map(repr, value))
            raise Error(
                f"px.choose was given a {type(value).__name__}", location=caller_location(),
                remedy=f"pass the values one by one: px.choose({listed})",
            )
        if isinstance(value, (set, frozenset, dict)):
            raise Error(
                f"px.choose was given a {type(value).__name__}, whose values have no order", location=caller_location(),
                remedy="pass the values one by one: of those that are equally fast the first is taken",
            )
    if len(values) < 2:
        given = f"px.choose has {len(values) or 'no'} value{'s' * (len(values) != 1)}"
        raise Error(given, location=caller_location(), remedy="write two or more, or the value itself")
    known: set[tuple[type, str]] = set()
    for value in values:
        if isinstance(value, Choose):
            raise Error(
                "px.choose within px.choose", location=caller_location(),
                remedy="write all values in one: px.choose(1, 2, 4)",
            )
        key = type(value), repr(value)
        if key in known:
            raise Error(f"px.choose has {value!r} twice", location=caller_location(), remedy="write each value once")
        known.add(key)
    return Choose(values)
