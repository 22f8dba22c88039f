"""Branches, loops and early exits of kernels, run in the simulator and compared with what Python says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phalanx as px

ANY = [-3, 0, 1, 4, 7, 20]


def outputs(kernel: Any, values: list[int], slots: int = 1, **constants: Any) -> list[Any]:
    """What a kernel writes to `OUT[i, :]` for `n` = each of `values`."""
    out = np.full((len(values), slots), -99, np.int32)
    kernel[len(values)](np.array(values, np.int32), out, **constants)
    return [row[0] for row in out.tolist()] if slots == 1 else out.tolist()


def test_if_elif_else() -> None:
    @px.kernel
    def sign(N, OUT):
        i = px.block_id(0)
        n = N[i]
        if n > 0:
            r = 1
        elif n == 0:
            r = 0
        else:
            r = -1
        px.store(OUT[i, 0], r)

    assert outputs(sign, ANY) == [-1, 0, 1, 1, 1, 1]


def test_nested_loops_with_break_and_continue() -> None:
    @px.kernel
    def pairs(N, OUT):
        i = px.block_id(0)
        n = N[i]
        found = 0
        steps = 0
        for a in range(n):
            if a % 2 == 1:
                continue
            for b in range(a, 10):
                steps += 1
                if a + b == n:
                    found += 1
                    break
                if b > a + 3:
                    break
            if steps > 12:
                break
        px.store(OUT[i, 0], found)
        px.store(OUT[i, 1], steps)

    def plain(n: int) -> list[int]:
        found = steps = 0
        for a in range(n):
            if a % 2 == 1:
                continue
            for b in range(a, 10):
                steps += 1
                if a + b == n:
                    found += 1
                    break
                if b > a + 3:
                    break
            if steps > 12:
                break
        return [found, steps]

    assert outputs(pairs, ANY, 2) == [plain(n) for n in ANY]


def test_range_with_step_and_run_time_bounds() -> None:
    @px.kernel
    def total(N, OUT, *, STEP):
        i = px.block_id(0)
        s = 0
        for k in range(N[i], 2, STEP):
            s += k
        px.store(OUT[i, 0], s)

    assert outputs(total, ANY, STEP=-3) == [sum(range(n, 2, -3)) for n in ANY]
    assert outputs(total, ANY, STEP=2) == [sum(range(n, 2, 2)) for n in ANY]


def test_unrolled_run_time_range() -> None:
    """`px.unroll` changes how a loop is written, not what it does."""

    @px.kernel
    def summed(N, OUT):
        i = px.block_id(0)
        ring = px.ring(3)
        total = 0
        for k in px.unroll(range(1, N[i], 2), 3):
            total = total * 2 + k + ring.stage + ring.parity
            ring.advance()
        px.store(OUT[i, 0], total)

    def plain(n: int) -> int:
        total = 0
        for step, k in enumerate(range(1, n, 2)):
            total = total * 2 + k + step % 3 + step // 3 % 2
        return total

    assert outputs(summed, ANY) == [plain(n) for n in ANY]
    listing = str(px.compile(summed[1], np.zeros(1, np.int32), np.zeros((1, 1), np.int32), arch="sm_90a").source)
    assert "#pragma unroll 3\n" in listing


def test_range_beyond_32_bits() -> None:
    @px.kernel
    def last(START, OUT):
        x = px.i64(0)
        for k in range(START, START + 3):
            x = k
        px.store(OUT[0], x)

    out = np.zeros(1, np.int64)
    last[1](2**40, out)
    assert out[0] == 2**40 + 2


def test_while_with_and_reads_memory_only_where_asked() -> None:
    """The shared buffer has 4 elements: reading a fifth would be out of bounds."""

    @px.kernel(warps=1)
    def first_negative(X, OUT):
        s = px.shared((4,), px.i32)
        px.store(s, px.load(X[0:4]))
        px.sync()
        k = 0
        while k < 4 and s[k] >= 0:
            k += 1
        px.store(OUT[0], k)

    for values, want in (([1, 2, -3, 4], 2), ([1, 2, 3, 4], 4), ([-1, 0, 0, 0], 0)):
        out = np.zeros(1, np.int32)
        first_negative[1](np.array(values, np.int32), out)
        assert out[0] == want


def test_while_true_makes_its_names_available() -> None:
    @px.kernel
    def collatz(N, OUT):
        i = px.block_id(0)
        x = N[i]
        count = 0
        while True:
            done = x <= 1
            if done:
                break
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            count += 1
        px.store(OUT[i, 0], count + done)

    def plain(n: int) -> int:
        count = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            count += 1
        return count + 1

    assert outputs(collatz, ANY) == [plain(n) for n in ANY]


def test_while_whose_test_changes_a_struct() -> None:
    @px.struct
    class Cursor:
        at: int
        end: int

        def step(self):
            self.at += 1
            return self.at < self.end

    @px.kernel
    def count(N, OUT):
        i = px.block_id(0)
        c = Cursor(-1, N[i])
        seen = 0
        while c.step():
            if c.at == 2:
                continue
            if c.at == 6:
                break
            seen += 10
        px.store(OUT[i, 0], seen)
        px.store(OUT[i, 1], c.at)

    def plain(n: int) -> list[int]:
        at, seen = -1, 0
        while True:
            at += 1
            if not at < n:
                break
            if at == 2:
                continue
            if at == 6:
                break
            seen += 10
        return [seen, at]

    assert outputs(count, ANY, 2) == [plain(n) for n in ANY]


def test_while_false_is_never_read() -> None:
    @px.kernel
    def nothing(N, OUT, *, DEBUG=False):
        while DEBUG:
            this_name_does_not_exist()  # noqa: F821
        px.store(OUT[px.block_id(0), 0], 1)

    assert outputs(nothing, [5]) == [1]


def test_early_return_of_a_kernel() -> None:
    @px.kernel
    def guarded(N, OUT):
        i = px.block_id(0)
        if N[i] > 3:
            return
        px.store(OUT[i, 0], 1)
        for k in range(5):
            if k == N[i]:
                px.store(OUT[i, 0], 10 + k)
                return
        px.store(OUT[i, 0], 2)

    assert outputs(guarded, ANY) == [2, 10, 11, -99, -99, -99]


def test_unrolled_loops() -> None:
    @px.kernel
    def powers(N, OUT):
        i = px.block_id(0)
        total = 0
        for k in px.static_range(5):
            if k == 1:
                continue
            if k == 4:
                break
            total += N[i] ** (k + 1)
        for width, factor in ((1, 100), (2, 1000)):
            total += width * factor
        px.store(OUT[i, 0], total)

    assert outputs(powers, ANY) == [n + n**3 + n**4 + 2100 for n in ANY]


def test_unrolled_loop_left_under_a_run_time_condition() -> None:
    @px.kernel
    def search(N, OUT, *, WIDTHS):
        i = px.block_id(0)
        n = N[i]
        skipped = 0
        best = -1
        for w in WIDTHS:
            if n % w:
                skipped += w
                continue
            best = w
            if n > 3:
                break
        px.store(OUT[i, 0], best)
        px.store(OUT[i, 1], skipped)

    def plain(n: int) -> list[int]:
        skipped, best = 0, -1
        for w in (4, 7, 5, 2):
            if n % w:
                skipped += w
                continue
            best = w
            if n > 3:
                break
        return [best, skipped]

    assert outputs(search, ANY, 2, WIDTHS=(4, 7, 5, 2)) == [plain(n) for n in ANY]


def test_static_return_after_a_run_time_break_of_an_unrolled_loop() -> None:
    @px.func
    def pick(n):
        for k in px.static_range(4):
            if n == k:
                break
            if k == 2:
                return 100 + n
        return n

    @px.kernel
    def both(N, OUT):
        px.store(OUT[px.block_id(0), 0], pick(N[px.block_id(0)]))

    assert outputs(both, [0, 1, 2, 3, 9]) == [0, 1, 2, 103, 109]


def test_values_that_leave_the_only_living_branch() -> None:
    @px.kernel
    def kept(N, OUT):
        i = px.block_id(0)
        n = N[i]
        if n > 0:
            double = 2 * n
            view = OUT[i, 0:1]
        else:
            return
        px.store(view, double + 1)

    assert outputs(kept, ANY) == [-99, -99, 3, 9, 15, 41]


def test_tiles_are_carried_and_merged() -> None:
    @px.kernel(warps=1)
    def steps(X, Y, n):
        x = px.load(X[0:8])
        acc = px.zeros((8,), px.f32)
        for k in range(n):
            acc += x * k
            if k % 2:
                x = x + 1.0
        if n > 2:
            acc = -acc
        px.store(Y[0:8], acc)

    for n in (0, 1, 5):
        x = np.arange(8, dtype=np.float32)
        y = np.full(8, 7, np.float32)
        steps[1](x, y, n)
        want, z = np.zeros(8, np.float32), x.copy()
        for k in range(n):
            want += z * k
            z = z + 1 if k % 2 else z
        np.testing.assert_array_equal(y, -want if n > 2 else want)


def test_tuples_are_carried_element_by_element() -> None:
    """Nested ones too; an element that stays a constant stays one."""

    @px.kernel
    def fibonacci(N, OUT):
        i = px.block_id(0)
        pair = (0, (1, 7), "name")
        for step in range(px.maximum(N[i], 0)):
            pair = (pair[1][0], (pair[0] + pair[1][0], 7), "name")
            if step == 9:
                break
        for slot in px.static_range(2 if pair[2] == "name" and pair[1][1] == 7 else 1):
            px.store(OUT[i, slot], (pair[0], pair[1][0])[slot])

    def plain(n: int) -> list[int]:
        a, b = 0, 1
        for _ in range(min(n, 10)):
            a, b = b, a + b
        return [a, b]

    assert outputs(fibonacci, ANY, 2) == [plain(n) for n in ANY]


def test_a_carried_number_grows_to_float() -> None:
    @px.kernel
    def drift(N, OUT):
        a = 0
        b = 0
        c = 0
        for _ in range(4):
            a = a + 1 + b
            b = b + c
            c = c + 0.5
        px.store(OUT[0], a)

    a = b = c = 0.0
    for _ in range(4):
        a, b, c = a + 1 + b, b + c, c + 0.5
    out = np.zeros(1, np.float32)
    drift[1](np.zeros(1, np.int32), out)
    assert out[0] == a


def test_loops_and_returns_inside_roles() -> None:
    @px.kernel(warps=2)
    def roles(N, OUT):
        n = N[0]
        with px.warps(0, 1):
            total = 0
            for k in range(n):
                if k == 3:
                    continue
                if k == 6:
                    break
                total += k
            px.store(OUT[0], total)
        with px.warps(1, 1):
            if n > 4:
                px.store(OUT[1], 44)
                return
            px.store(OUT[1], 11)

    for n, want in ((2, [1, 11]), (5, [7, 44]), (9, [12, 44])):
        out = np.zeros(2, np.int32)
        roles[1](np.array([n], np.int32), out)
        assert out.tolist() == want


def test_what_a_role_changes_stays_inside() -> None:
    @px.struct
    class Count:
        n: int

    @px.kernel(warps=2)
    def copies(OUT):
        x = 1
        c = Count(10)
        ring = px.ring(2)
        with px.warps(0, 1):
            x += 1
            c.n += 5
            ring.advance()
            px.store(OUT[0], x + c.n + ring.stage)
        with px.warps(1, 1):
            px.store(OUT[1], x + c.n + ring.stage)
        px.store(OUT[2], x + c.n + ring.stage)

    out = np.zeros(3, np.int32)
    copies[1](out)
    assert out.tolist() == [2 + 15 + 1, 11, 11]


@pytest.mark.parametrize("n", range(9))
def test_ring_wraps_with_its_parity(n: int) -> None:
    @px.kernel
    def walk(N, OUT):
        r = px.ring(3)
        for _ in range(N[0]):
            r.advance()
        px.store(OUT[0], r.stage)
        px.store(OUT[1], r.parity)

    out = np.zeros(2, np.int32)
    walk[1](np.array([n], np.int32), out)
    assert out.tolist() == [n % 3, n // 3 % 2]


def test_a_loop_that_nests_a_function_with_early_returns() -> None:
    @px.func
    def classify(n, k):
        if n < k:
            return 1
        for j in range(4):
            if n == j * k:
                return 2
        return 3

    @px.kernel
    def tally(N, OUT):
        i = px.block_id(0)
        ones = twos = threes = 0
        for k in range(1, 6):
            kind = classify(N[i], k)
            if kind == 1:
                ones += 1
            elif kind == 2:
                twos += 1
            else:
                threes += 1
        px.store(OUT[i, 0], ones * 100 + twos * 10 + threes)

    def plain(n: int) -> int:
        total = 0
        for k in range(1, 6):
            total += 100 if n < k else 10 if any(n == j * k for j in range(4)) else 1
        return total

    assert outputs(tally, ANY) == [plain(n) for n in ANY]
