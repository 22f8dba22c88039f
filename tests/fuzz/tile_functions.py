"""More statements of random tile kernels that compute: folds by a function, one rounding for two operations, bits, axes."""

from __future__ import annotations

import math
from dataclasses import replace

from fuzz.tile_operations import TRUTH, Operations, broadcast, computes
from fuzz.tile_values import ANYTHING, FLOATS, INTEGERS, NUMPY, SIX_BITS, Facts, Grid, Value, bytes_of, rounded
from fuzz.tile_writing import promoted

FOLDS = {
    "former": ["@px.func", "def former(a, b):", "    return a"],
    "latter": ["@px.func", "def latter(a, b):", "    return b"],
    "larger": ["@px.func", "def larger(a, b):", "    return px.where(a > b, a, b)"],
    "multiplied": ["@px.func", "def multiplied(a, b):", "    return a * b"],
    "differing": ["@px.func", "def differing(a, b):", "    return a ^ b"],
    "linear": ["@px.func", "def linear(a, b):", "    return a[0] * b[0], b[0] * a[1] + b[1]"],
}
"""Functions of which the grouping does not show: integers wrap."""


class Functions(Operations):
    """Mixed into the program."""

    def decision(self) -> Value | None:
        """Whether any or all elements along an axis are not 0, or where the smallest one is."""
        a = self.some(computes)
        if a is None:
            return None
        axis, keep = self.rng.randrange(len(a.shape)), self.chance(0.3)
        shape = tuple(n if d != axis else 1 for d, n in enumerate(a.shape) if keep or d != axis)
        options = f", {axis}" + (", keepdims=True" if keep else "")
        fn = self.rng.choice(["any", "all", "argmin"])
        if fn == "argmin":
            facts = Facts(Grid(0, max(1, a.shape[axis].bit_length())))
            return self.assign(f"px.argmin({a.name}{options})", shape, "i32", facts)
        if self.chance(0.2):
            return self.assign(f"px.{fn}({a.name})", (), "bool", TRUTH)
        return self.assign(f"px.{fn}({a.name}{options})", shape, "bool", TRUTH)

    def fused(self) -> Value | None:
        """`a * b + c` of floats, rounded once."""
        a = self.some(lambda v: computes(v) and v.dtype in FLOATS)
        found = self.pair()
        if a is None or found is None:
            return None
        b, c = found
        dtype, shape = promoted(b.dtype, c.dtype), broadcast(b.shape, c.shape)
        whole = None if shape is None else broadcast(a.shape, shape)
        dtype = None if dtype is None else promoted(a.dtype, dtype)
        if dtype is None or whole is None or not self.affordable(whole, dtype):
            return None
        zeros = all(v.facts.zeros for v in (a, b, c))
        return self.assign(f"px.fma({a.name}, {b.name}, {c.name})", whole, dtype, Facts(zeros=zeros))

    def skipping(self) -> Value | None:
        """A product that warps leave out whose factors are all 1."""
        found = self.pair()
        if found is None:
            return None
        a, b = found if math.prod(found[0].shape) >= math.prod(found[1].shape) else found[::-1]
        fits = broadcast(a.shape, b.shape) == a.shape and promoted(a.dtype, b.dtype) == a.dtype
        if not a.shape or a.dtype not in FLOATS or not fits:
            return None
        factor = f"px.where({b.name} > 0, {b.name}, 1)" if self.chance(0.5) else b.name
        zeros = a.facts.zeros and b.facts.zeros
        facts = Facts(product=True, zeros=zeros)
        return self.assign(f"px.multiply({a.name}, {factor}, skip_ones=True)", a.shape, a.dtype, facts)

    def rounding(self) -> Value | None:
        a = self.some(lambda v: computes(v) and v.dtype in FLOATS, scalars=0.1)
        if a is None:
            return None
        fn = self.rng.choice(["round", "trunc", "isnan"])
        if fn == "isnan":
            return self.assign(f"px.isnan({a.name})", a.shape, "bool", TRUTH)
        grid = a.facts.grid
        facts = rounded(None if grid is None else Grid(0, max(0, grid.high) + 1), a.dtype, Facts(zeros=a.facts.zeros))
        return self.assign(f"px.{fn}({a.name})", a.shape, a.dtype, facts)

    def bits(self) -> Value | None:
        """The same bits as another type; not of what may be NaN, whose bits are open."""
        a = self.some(lambda v: v.facts.exact and (v.dtype in INTEGERS or self.certain(v)), scalars=0.1)
        if a is None:
            return None
        same = [d for d in NUMPY if bytes_of(d) == bytes_of(a.dtype) and d not in ("bool", a.dtype, *SIX_BITS)]
        if not same:
            return None
        target = self.rng.choice(same)
        return self.assign(f"px.bitcast({a.name}, px.{target})", a.shape, target, ANYTHING)

    @staticmethod
    def certain(value: Value) -> bool:
        return value.facts.grid is not None and value.facts.zeros and value.dtype in FLOATS

    def new_axis(self) -> Value | None:
        a = self.some(lambda v: len(v.shape) < 4)
        if a is None:
            return None
        place = self.rng.randrange(len(a.shape) + 1)
        items = [":"] * len(a.shape)
        items.insert(place, "None")
        shape = (*a.shape[:place], 1, *a.shape[place:])
        return self.assign(f"{a.name}[{', '.join(items)}]", shape, a.dtype, a.facts)

    def folded(self) -> Value | None:
        """A fold or a scan by a function of the kernel's file, of one tile or of two that travel together."""
        a = self.some(computes)
        if a is None:
            return None
        axis = self.rng.randrange(len(a.shape))
        names = ["former", "latter"]
        if a.dtype in INTEGERS:
            names += ["multiplied", "differing", "larger"]
        if a.dtype in INTEGERS and self.chance(0.3):
            return self.folded_pair(a, axis)
        fn = self.rng.choice(names)
        self.helpers.add(fn)
        facts = a.facts if fn in ("former", "latter", "larger") else ANYTHING
        if self.chance(0.4):
            return self.assign(f"px.scan({a.name}, {axis}, {fn})", a.shape, a.dtype, replace(facts, product=False))
        keep = self.chance(0.3)
        shape = tuple(n if d != axis else 1 for d, n in enumerate(a.shape) if keep or d != axis)
        text = f"px.reduce({a.name}, {axis}, {fn}{', keepdims=True' if keep else ''})"
        return self.assign(text, shape, a.dtype, facts)

    def largest(self) -> Value | None:
        """The first few of an axis in descending order, and where they were."""
        a = self.some(lambda v: computes(v) and v.dtype != "bool")
        if a is None:
            return None
        axis = self.rng.randrange(len(a.shape))
        count = min(self.rng.randrange(1, 5), a.shape[axis])
        shape = tuple(count if d == axis else n for d, n in enumerate(a.shape))
        one, two = self.fresh("t"), self.fresh("t")
        self.line(f"{one}, {two} = px.topk({a.name}, {count}, {axis})")
        self.keep(Value(one, shape, a.dtype, replace(a.facts, zeros=False)))
        self.keep(Value(two, shape, "i32", Facts(Grid(0, max(1, a.shape[axis].bit_length())))))
        return self.values[-1]

    def folded_pair(self, a: Value, axis: int) -> Value | None:
        b = self.some(lambda v: v.shape == a.shape and v.dtype == a.dtype)
        assert b is not None
        self.helpers.add("linear")
        one, two = self.fresh("t"), self.fresh("t")
        scan = self.chance(0.5)
        shape = a.shape if scan else tuple(n for d, n in enumerate(a.shape) if d != axis)
        self.line(f"{one}, {two} = px.{'scan' if scan else 'reduce'}(({a.name}, {b.name}), {axis}, linear)")
        for name in (one, two):
            self.keep(Value(name, shape, a.dtype))
        return self.values[-1] if shape else self.scalars[-1]
