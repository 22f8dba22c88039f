"""Tiles dealt to clusters, and grids that are left to the compiler."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@case
def a_float_of_tiles():
    @px.kernel
    def bad(X):
        for t in px.persistent(3.5):
            px.store(X[t], 1.0)

    bad[1](X)


@case
def an_unknown_schedule():
    @px.kernel
    def bad(X):
        for t in px.persistent(8, schedule="dynamic"):
            px.store(X[t], 1.0)

    bad[1](X)


@px.kernel
def of_groups(X, STARTS, n, *, CASE=""):
    if CASE == "offsets":
        for t, g in px.persistent(groups=X, tile=8):
            px.store(X[t], g.index)
    elif CASE == "tile":
        for t, g in px.persistent(groups=STARTS, tile=n):
            px.store(X[t], g.index)
    elif CASE == "no groups":
        for t in px.persistent(8, tile=8):
            px.store(X[t], 1.0)
    elif CASE == "one name":
        for t in px.persistent(groups=STARTS, tile=8):
            px.store(X[t], 1.0)
    elif CASE == "requests":
        for t, g in px.persistent(schedule="clc", groups=STARTS, tile=8):
            px.store(X[t], g.index)
    else:
        for t, g in px.persistent(groups=STARTS, tile=8):
            px.store(X[g], t)


STARTS = np.array([0, 5, 9], np.int32)


@case
def groups_that_are_no_offsets():
    of_groups[1](X, STARTS, 8, CASE="offsets")


@case
def tiles_of_groups_that_a_run_sizes():
    of_groups[1](X, STARTS, 8, CASE="tile")


@case
def rows_of_a_tile_without_groups():
    of_groups[1](X, STARTS, 8, CASE="no groups")


@case
def groups_with_one_variable():
    of_groups[1](X, STARTS, 8, CASE="one name")


@case
def groups_by_cluster_launch_control():
    of_groups[1](X, STARTS, 8, CASE="requests", arch="sm_100a")


@case
def a_group_as_an_index():
    of_groups[1](X, STARTS, 8)


@case
def cluster_launch_control_on_hopper():
    @px.kernel
    def bad(X):
        for t in px.persistent(8, schedule="clc"):
            px.store(X[t], 1.0)

    bad[1](X, arch="sm_90a")


@px.kernel
def undealt(X):
    px.store(X[px.block_id(0)], 1.0)


@case
def a_grid_for_the_compiler_without_tiles():
    undealt[px.auto](X)


@case
def a_grid_with_bounds():
    undealt[px.auto(least=3)](X)


def two_loops(A, B, n, *, CASE=""):
    with px.warps(0, 1):
        for t in px.persistent(n, schedule="counter"):
            px.store(A[t], 1.0)
        if CASE == "one has two":
            for t in px.persistent(n, schedule="counter"):
                px.store(A[t], 2.0)
    with px.warps(1, 1):
        for t in px.persistent(n - 1 if CASE == "another number" else n, schedule="counter"):
            px.store(B[t], 1.0)


@case
def roles_with_different_numbers_of_loops():
    px.kernel(warps=2)(two_loops)[1](X, X.copy(), 8, CASE="one has two")


@case
def roles_with_different_numbers_of_tiles():
    px.kernel(warps=2)(two_loops)[1](X, X.copy(), 8, CASE="another number")


@case
def a_counter_in_a_loop():
    @px.kernel
    def bad(X, n):
        for i in range(n):
            for t in px.persistent(8, schedule="counter"):
                px.store(X[t], i)

    bad[1](X, 3)


@case
def a_counter_under_a_condition():
    @px.kernel
    def bad(X, n):
        if px.block_id(0) < n:
            for t in px.persistent(8, schedule="counter"):
                px.store(X[t], 1.0)

    bad[1](X, 3)


@case
def return_before_a_counter():
    @px.kernel
    def bad(X, n):
        if px.block_id(0) >= n:
            return
        for t in px.persistent(8, schedule="counter"):
            px.store(X[t], 1.0)

    bad[1](X, 3)


@case
def break_out_of_a_counter():
    @px.kernel
    def bad(X, n):
        for t in px.persistent(8, schedule="counter"):
            if t == n:
                break
            px.store(X[t], 1.0)

    bad[1](X, 3)


@case
def return_out_of_a_counter():
    @px.kernel(warps=2)
    def bad(X, n):
        with px.warps(0, 1):
            for t in px.persistent(8, schedule="counter"):
                for k in range(n):
                    if k == t:
                        return
                px.store(X[t], 1.0)

    bad[1](X, 3)


@case
def unrolled_draws():
    @px.kernel
    def bad(X):
        for t in px.unroll(px.persistent(8, schedule="counter"), 2):
            px.store(X[t], 1.0)

    bad[1](X)


@case
def too_many_counters():
    @px.kernel
    def bad(X):
        for i in px.static_range(17):
            for t in px.persistent(4, schedule="counter"):
                px.store(X[t], float(i))

    bad[1](X)


@case
def tiles_and_clusters_that_others_take_over():
    @px.kernel
    def bad(X):
        answer, bar = px.shared((4,), px.i32), px.barrier()
        with bar.transaction():
            px.clc.try_cancel(answer, bar)
        bar.wait(0)
        for t in px.persistent(8):
            px.store(X[t], 1.0)

    bad[1](X)


@case
def tiles_beside_those_of_clusters_that_are_taken_over():
    @px.kernel
    def bad(X):
        for t in px.persistent(8, schedule="clc"):
            px.store(X[t], 1.0)
        for t in px.persistent(8):
            px.store(X[t], 2.0)

    bad[8](X)


@case
def roles_with_different_schedules():
    @px.kernel(warps=2)
    def bad(X, Y):
        with px.warps(0, 1):
            for t in px.persistent(8, schedule="clc"):
                px.store(X[t], 1.0)
        with px.warps(1, 1):
            for t in px.persistent(8, schedule="counter"):
                px.store(Y[t], 1.0)

    bad[8](X, X.copy())
