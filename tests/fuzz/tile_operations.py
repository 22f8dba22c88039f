"""Statements of random tile kernels that compute: operators, functions, conversions, reductions, scans, shapes."""

from __future__ import annotations

import math
from dataclasses import replace

from fuzz.tile_values import (
    ANYTHING,
    APPROXIMATE_TANH,
    FLOATS,
    FP8,
    INTEGERS,
    SIGNED,
    TOLERANCE,
    Facts,
    Grid,
    Value,
    bits_of,
    converted,
    integer_limits,
    is_float,
    plus,
    rounded,
    summed,
    times,
)
from fuzz.tile_writing import Writing, as_literal, number_facts, promoted

TRUTH = Facts(Grid(0, 0))
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
NEAR_ZERO = ("exp", "exp2")
"""Functions whose results stay in every type's range for arguments up to 8."""
MODERATE = ("log", "log2", "sin", "cos", "rsqrt", "reciprocal")
ANYWHERE = ("tanh", "tanh_approx", "erf", "sigmoid")
DYADIC = (0.5, 2.0, -1.0, 1.0, -0.25, 4.0, 0.0, 3.0, 1.5, -2.5)
AWKWARD = (math.inf, -math.inf, math.nan, -0.0, 0.1, 1.0004882821813226, 1e30, -1e-40, 65519.99, 448.5)


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape, None where there is none."""
    rank = max(len(a), len(b))
    long_a, long_b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    if any(x != y and 1 not in (x, y) for x, y in zip(long_a, long_b, strict=True)):
        return None
    return tuple(max(x, y) for x, y in zip(long_a, long_b, strict=True))


def computes(value: Value) -> bool:
    return value.facts.exact and value.dtype not in FP8


class Operations(Writing):
    """Mixed into the program: each method writes one statement, or gives None where nothing at hand fits."""

    # Two operands.

    def pair(self) -> tuple[Value, Value] | None:
        """Two values that can be combined; the second may be a scalar."""
        a = self.some(computes)
        if a is None:
            return None
        b = self.some(
            lambda v: computes(v) and (shape := broadcast(a.shape, v.shape)) is not None and self.affordable(shape, "i64"),
            scalars=0.15,
        )
        return None if b is None else ((a, b) if self.chance(0.5) else (b, a))

    def binary(self) -> Value | None:
        found = self.pair()
        if found is None:
            return None
        return self.operation(*found)

    def scalar_binary(self) -> Value | None:
        """The same on scalars."""
        pool = [v for v in self.scalars if computes(v)]
        if len(pool) < 2:
            return None
        return self.operation(self.rng.choice(pool), self.rng.choice(pool))

    def operation(self, a: Value, b: Value) -> Value | None:
        """One operator or function of two operands."""
        dtype = promoted(a.dtype, b.dtype)
        shape = broadcast(a.shape, b.shape)
        if dtype is None or shape is None or not self.affordable(shape, dtype):
            return None
        if dtype == "bool":
            symbol = self.rng.choice(["&", "|", "^", "+", "*", "max", "min"])
            if symbol in ("+", "*"):
                facts = Facts(Grid(0, 1))
                return self.assign(f"{a.name} {symbol} {b.name}", shape, "i32", facts)
            text = f"px.{symbol}imum({a.name}, {b.name})" if len(symbol) > 1 else f"{a.name} {symbol} {b.name}"
            return self.assign(text, shape, "bool", TRUTH)
        fa, fb = converted(a.facts, a.dtype, dtype), converted(b.facts, b.dtype, dtype)
        if is_float(dtype):
            return self.float_operation(a, b, fa, fb, shape, dtype)
        symbol = self.rng.choice(["+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%", "max", "min", "+", "*", "/"])
        left, right = a.name, b.name
        facts = ANYTHING
        if symbol in ("//", "%"):
            if b.dtype == "bool":  # with 1 it would be an i32
                return None
            right = f"({right} | 1)"
        if symbol in ("+", "-"):
            facts = plus(fa, fb, dtype) or ANYTHING
            if symbol == "-" and dtype not in SIGNED:
                facts = ANYTHING
        elif symbol == "*":
            facts = times(fa, fb, dtype)
        elif symbol == "/":
            return self.assign(f"{left} / ({right} | 1)", shape, "f32", ANYTHING)
        elif len(symbol) > 2:
            return self.assign(f"px.{symbol}imum({left}, {right})", shape, dtype, replace(fa.meet(fb), product=False))
        return self.assign(f"{left} {symbol} {right}", shape, dtype, facts)

    def float_operation(self, a: Value, b: Value, fa: Facts, fb: Facts, shape: tuple[int, ...], dtype: str) -> Value | None:
        symbol = self.rng.choice(["+", "-", "*", "+", "*", "/", "//", "%", "max", "min"])
        facts: Facts | None
        if symbol in ("+", "-"):
            facts = plus(fa, fb, dtype)
        elif symbol == "*":
            facts = times(fa, fb, dtype)
        elif symbol in ("max", "min"):
            facts = replace(fa.meet(fb), zeros=False)
            return self.assign(f"px.{symbol}imum({a.name}, {b.name})", shape, dtype, facts)
        elif not fb.zeros or not fa.zeros:
            return None
        else:
            facts = Facts(None, zeros=symbol == "/")
        return None if facts is None else self.assign(f"{a.name} {symbol} {b.name}", shape, dtype, facts)

    def literal(self) -> Value | None:
        """An operator between a value and a constant."""
        a = self.some(computes, scalars=0.1)
        if a is None:
            return None
        if is_float(a.dtype) or a.dtype == "bool" or self.chance(0.1):
            number: float = self.rng.choice(DYADIC if self.chance(0.8) else AWKWARD)
            dtype = a.dtype if is_float(a.dtype) else "f32"
            fa, fb = converted(a.facts, a.dtype, dtype), rounded(number_facts(number).grid, dtype, ANYTHING)
            symbol = self.rng.choice(["+", "-", "*", "/", "//", "%", "max", "min"])
            text = as_literal(number)
            facts: Facts | None
            if symbol in ("max", "min"):
                return self.assign(
                    f"px.{symbol}imum({a.name}, {text})", a.shape, dtype, replace(fa.meet(fb), zeros=False)
                )
            if symbol in ("+", "-"):
                facts = plus(fa, fb, dtype)
            elif symbol == "*":
                facts = times(fa, fb, dtype)
            else:
                facts = Facts(None, zeros=symbol == "/") if fa.zeros or symbol == "/" else None
            if facts is None:
                return None
            if symbol == "-" and self.chance(0.5):
                return self.assign(f"{text} - {a.name}", a.shape, dtype, facts)
            return self.assign(f"{a.name} {symbol} {text}", a.shape, dtype, facts)
        return self.integer_literal(a)

    def integer_literal(self, a: Value) -> Value:
        low, high = integer_limits(a.dtype)
        symbol = self.rng.choice(["+", "-", "*", "&", "|", "^", "<<", ">>", "//", "%", "max", "min", "r-"])
        number = self.rng.choice([0, 1, 2, 3, 5, 7, 8, 15, 16, 100, 127, low, high, -1, -3, -8, 31, 32, 63, 64])
        if symbol in ("<<", ">>"):
            bits = bits_of(a.dtype)
            number = self.rng.choice([0, 1, 2, 3, bits - 1, bits, bits + 1, 2 * bits, 3])
        if not low <= number <= high and self.chance(0.7):
            number = 3
        if symbol in ("//", "%") and number == 0:
            number = 3
        weak = "i32" if -(2**31) <= number < 2**31 else "i64"
        dtype = a.dtype if low <= number <= high else promoted(a.dtype, weak) or a.dtype
        fa, fb = converted(a.facts, a.dtype, dtype), rounded(number_facts(number).grid, dtype, ANYTHING)
        text, facts = as_literal(number), ANYTHING
        if symbol in ("+", "-", "r-"):
            facts = plus(fa, fb, dtype) or ANYTHING
            if symbol != "+" and dtype not in SIGNED:
                facts = ANYTHING
        elif symbol == "*":
            facts = times(fa, fb, dtype)
        elif symbol == "%" and number > 0:
            facts = rounded(Grid(0, max(1, number.bit_length())), dtype, ANYTHING)
        elif symbol in ("max", "min"):
            return self.assign(f"px.{symbol}imum({a.name}, {text})", a.shape, dtype, fa.meet(fb))
        if symbol == "r-":
            return self.assign(f"{text} - {a.name}", a.shape, dtype, facts)
        return self.assign(f"{a.name} {symbol} {text}", a.shape, dtype, facts)

    def comparison(self) -> Value | None:
        if self.chance(0.5):
            a = self.some(computes, scalars=0.1)
            if a is None:
                return None
            number = self.rng.choice(DYADIC) if is_float(a.dtype) else self.rng.choice([0, 1, 3])
            return self.assign(f"{a.name} {self.rng.choice(COMPARISONS)} {as_literal(number)}", a.shape, "bool", TRUTH)
        found = self.pair()
        if found is None or promoted(found[0].dtype, found[1].dtype) is None:
            return None
        a, b = found
        shape = broadcast(a.shape, b.shape)
        assert shape is not None
        return self.assign(f"{a.name} {self.rng.choice(COMPARISONS)} {b.name}", shape, "bool", TRUTH)

    def where(self) -> Value | None:
        found = self.pair()
        if found is None:
            return None
        a, b = found
        dtype, shape = promoted(a.dtype, b.dtype), broadcast(a.shape, b.shape)
        if dtype is None or shape is None:
            return None

        def fits(v: Value) -> bool:
            return v.dtype == "bool" and broadcast(v.shape, shape) is not None

        condition = self.some(fits)
        if condition is None:
            self.comparison()
            condition = self.some(fits)
        if condition is None:
            return None
        whole = broadcast(condition.shape, shape)
        if whole is None or not self.affordable(whole, dtype):
            return None
        facts = converted(a.facts, a.dtype, dtype).meet(converted(b.facts, b.dtype, dtype))
        name = "px.where"
        if self.chance(0.2):
            self.helpers.add("blend")
            name = "blend"
        return self.assign(f"{name}({condition.name}, {a.name}, {b.name})", whole, dtype, facts)

    # One operand.

    def unary(self) -> Value | None:
        a = self.some(computes, scalars=0.1)
        if a is None:
            return None
        if a.dtype == "bool":
            return self.assign(f"~{a.name}", a.shape, "bool", TRUTH)
        if not is_float(a.dtype):
            form = self.rng.choice(["-{}", "px.abs({})", "~{}"])
            return self.assign(form.format(a.name), a.shape, a.dtype, ANYTHING)
        form = self.rng.choice(["-{}", "px.abs({})", "px.floor({})", "px.ceil({})", "px.sqrt({})", "twice({})"])
        facts = a.facts
        if form == "twice({})":
            self.helpers.add("twice")
        if form == "px.sqrt({})":
            facts = Facts(None, zeros=facts.zeros)
        elif form in ("px.floor({})", "px.ceil({})"):
            grid = a.facts.grid
            facts = rounded(None if grid is None else Grid(0, max(0, grid.high) + 1), a.dtype, Facts(zeros=facts.zeros))
        return self.assign(form.format(a.name), a.shape, a.dtype, facts)

    def approximate(self) -> Value | None:
        """A function that the GPU approximates; its result is not computed with."""
        def fits(v: Value) -> bool:
            return computes(v) and v.dtype in FLOATS and v.facts.zeros

        a = self.some(lambda v: fits(v) and v.facts.grid is not None) or self.some(fits)
        a = a or self.floats()
        if a is None:
            return None
        grid = a.facts.grid
        names = list(ANYWHERE)
        if grid is not None and grid.high <= 3:
            names += 3 * NEAR_ZERO
        if grid is not None and grid.high <= 10 and grid.low >= -10:
            names += 2 * MODERATE
        fn = self.rng.choice(names)
        tolerance = TOLERANCE[a.dtype]
        text = f"px.{fn}({a.name})"
        if fn == "tanh_approx":
            text, tolerance = f"px.tanh({a.name}, approx=True)", max(tolerance, APPROXIMATE_TANH)
        return self.assign(text, a.shape, a.dtype, Facts(tolerance=tolerance))

    def floats(self) -> Value | None:
        """A tile of floats that lie on a grid, out of integers."""
        dtype = self.rng.choice(FLOATS)
        if not self.affordable(self.shape[-1:], "i32"):
            return None
        half = self.assign(f"px.arange({self.shape[-1]}) % 16 - 7", self.shape[-1:], "i32", Facts(Grid(0, 4)))
        return self.assign(f"{half.name}.to(px.{dtype}) * 0.5", half.shape, dtype, Facts(Grid(-1, 3)))

    def convert(self) -> Value | None:
        a = self.some(lambda v: v.facts.exact or is_float(v.dtype), scalars=0.1)
        if a is None:
            return None
        target = self.dtype()
        if (not a.facts.exact and target not in FLOATS) or not self.affordable(a.shape, target):
            return None
        if target == "bool" and not a.facts.exact:
            return None
        facts = converted(a.facts, a.dtype, target) if target != "bool" else TRUTH
        text = f"px.{target}({a.name})" if self.chance(0.2) else f"{a.name}.to(px.{target})"
        return self.assign(text, a.shape, target, facts)

    def held(self) -> Value | None:
        a = self.some(scalars=0.2)
        return None if a is None else self.assign(f"px.keep({a.name})", a.shape, a.dtype, a.facts)

    # Along axes.

    def reduction(self) -> Value | None:
        a = self.some(computes)
        if a is None:
            return None
        rank = len(a.shape)
        fn = self.rng.choice(["sum", "max", "min", "argmax", "sum"])
        axis = self.rng.randrange(-rank, rank)
        everything = fn != "argmax" and self.chance(0.15)
        keep = self.chance(0.3)
        count = math.prod(a.shape) if everything else a.shape[axis]
        if everything:
            shape: tuple[int, ...] = (1,) * rank if keep else ()
        else:
            shape = tuple(n if d != axis % rank else 1 for d, n in enumerate(a.shape) if keep or d != axis % rank)
        dtype, facts = a.dtype, replace(a.facts, zeros=False, product=False)
        if dtype == "bool" and fn in ("max", "min", "argmax") and self.chance(0.8):
            fn = "sum"
        if fn == "sum":
            dtype = "i32" if dtype == "bool" else dtype
            found = summed(a.facts, dtype, count)
            if found is None:
                fn = "max"
            else:
                facts = found
        if fn == "argmax":
            dtype, facts = "i32", Facts(Grid(0, max(1, a.shape[axis].bit_length())))
        options = ("" if everything else f", {axis}") + (", keepdims=True" if keep else "")
        if not everything and self.chance(0.3):
            options = options.replace(f", {axis}", f", axis={axis}")
        return self.assign(f"px.{fn}({a.name}{options})", shape, dtype, facts)

    def scan(self) -> Value | None:
        a = self.some(lambda v: computes(v) and summed(v.facts, v.dtype, max(v.shape)) is not None)
        if a is None:
            return None
        axis = self.rng.randrange(-len(a.shape), len(a.shape))
        dtype = "i32" if a.dtype == "bool" else a.dtype
        facts = summed(a.facts, dtype, a.shape[axis])
        if facts is None or not self.affordable(a.shape, dtype):
            return None
        return self.assign(f"px.cumsum({a.name}, {axis})", a.shape, dtype, facts)

    # Shapes.

    def transpose(self) -> Value | None:
        a = self.some(lambda v: len(v.shape) > 1)
        if a is None:
            return None
        if self.chance(0.6):
            return self.assign(f"{a.name}.T", a.shape[::-1], a.dtype, a.facts)
        axes = list(range(len(a.shape)))
        self.rng.shuffle(axes)
        return self.assign(
            f"{a.name}.permute({', '.join(map(str, axes))})", tuple(a.shape[d] for d in axes), a.dtype, a.facts
        )

    def reshape(self) -> Value | None:
        a = self.some()
        if a is None:
            return None
        sizes: list[int] = []
        left = math.prod(a.shape)
        if self.chance(0.3):
            sizes = [n for n in a.shape if n > 1]
            sizes.insert(self.rng.randrange(len(sizes) + 1), 1)
        else:
            for _ in range(self.rng.randrange(0, 4)):
                divisors = [d for d in range(1, left + 1) if left % d == 0]
                sizes.append(self.rng.choice(divisors))
                left //= sizes[-1]
            sizes.append(left)
        if len(sizes) > 4 or tuple(sizes) == a.shape:
            return None
        return self.assign(f"{a.name}.reshape({', '.join(map(str, sizes))})", tuple(sizes), a.dtype, a.facts)

    def part(self) -> Value | None:
        """Aligned powers of two, most along the axis of which a thread holds the most."""
        a = self.some(lambda v: any(n >= 16 and n & (n - 1) == 0 for n in v.shape))
        if a is None:
            return None
        axis = self.rng.choice([d for d, n in enumerate(a.shape) if n >= 16 and n & (n - 1) == 0])
        size = a.shape[axis] // 2
        start = self.rng.randrange(0, 2) * size
        cut = ", ".join(":" if d != axis else f"{start}:{start + size}" for d in range(axis + 1))
        shape = tuple(size if d == axis else n for d, n in enumerate(a.shape))
        return self.assign(f"{a.name}[{cut}]", shape, a.dtype, a.facts)

    # Out of nothing.

    def counting(self) -> Value | None:
        size = self.rng.choice([n for n in self.shape])
        value = self.assign(f"px.arange({size})", (size,), "i32", Facts(Grid(0, max(1, size.bit_length()))))
        if self.chance(0.5) and len(self.shape) > 1:
            axis = self.rng.choice([d for d, n in enumerate(self.shape) if n == size])
            shape = tuple(n if d == axis else 1 for d, n in enumerate(self.shape))
            return self.assign(f"{value.name}.reshape({', '.join(map(str, shape))})", shape, "i32", value.facts)
        return value

    def filled(self) -> Value | None:
        shape = self.shape if self.chance(0.6) else self.shape[-1:]
        dtype = self.dtype()
        if not self.affordable(shape, dtype):
            return None
        scalar = self.some(computes, scalars=1.0)
        written = "(" + ", ".join(map(str, shape)) + ",)"
        if scalar is not None and self.chance(0.5) and dtype not in ("bool",):
            facts = converted(scalar.facts, scalar.dtype, dtype)
            return self.assign(f"px.full({written}, {scalar.name}, px.{dtype})", shape, dtype, facts)
        if self.chance(0.3):
            return self.assign(f"px.zeros({written}, px.{dtype})", shape, dtype, Facts(Grid(0, 0)))
        number: float = self.rng.choice([0, 1])
        if dtype in INTEGERS:
            number = self.rng.choice([0, 1, 5, *integer_limits(dtype)])
        elif is_float(dtype):
            number = self.rng.choice(DYADIC if self.chance(0.8) else AWKWARD)
        facts = rounded(number_facts(number).grid, dtype, ANYTHING) if dtype != "bool" else TRUTH
        if dtype in FP8 and not math.isfinite(number):
            number, facts = 1.0, Facts(Grid(0, 0))
        return self.assign(f"px.full({written}, {as_literal(number)}, px.{dtype})", shape, dtype, facts)

    def scalar_of_block(self) -> Value:
        dim = self.rng.randrange(0, 3)
        text = self.rng.choice([f"px.block_id({dim})", f"px.num_blocks({dim})"])
        return self.assign(text, (), "i32", Facts(Grid(0, 4)), "b")
