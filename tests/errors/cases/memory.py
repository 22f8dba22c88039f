"""Atomics, shared memory by index, assumptions."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)


@case
def atomic_cas_of_floats():
    @px.kernel
    def take(X):
        px.atomic_cas(X[0:8, 0:8], 0.0, 1.0)

    take[1](X)


@case
def atomic_load_of_narrow_elements():
    @px.kernel
    def look(X):
        px.store(X[0:8], px.atomic_load(X[8:16]))

    look[1](np.zeros(16, np.float16))


@case
def atomic_load_of_shared_memory():
    @px.kernel
    def look(X):
        s = px.shared((8, 8), px.f32)
        px.store(X[0:8, 0:8], px.atomic_load(s))

    look[1](X)


@case
def atomic_max_with_a_tile_of_another_shape():
    @px.kernel
    def peak(X):
        px.atomic_max(X[0:8, 0:8], px.zeros((8, 4)))

    peak[1](X)


@case
def atomic_exch_of_a_value():
    @px.kernel
    def swap(X):
        x = px.load(X[0, 0])
        px.atomic_exch(x, 1.0)

    swap[1](X)


@case
def atomic_add_in_an_unknown_order():
    @px.kernel
    def add(X):
        px.atomic_add(X[0, 0], 1.0, order="release")

    add[1](X)


@case
def ordered_atomic_add_of_a_tile():
    @px.kernel
    def add(X):
        px.atomic_add(X[0:8, 0:8], 1.0, order="acq_rel")

    add[1](X)


@case
def counters_twice():
    @px.kernel
    def count(X):
        first, second = px.counters(2), px.counters(4)
        px.atomic_add(first[0], px.load(second[0]))

    count[1](X)


@case
def counters_without_end():
    @px.kernel
    def count(X):
        px.atomic_add(px.counters(1000)[0], 1)

    count[1](X)


@case
def counters_in_a_loop():
    @px.kernel
    def count(X):
        for i in range(X.shape[0]):
            px.atomic_add(px.counters(4)[i], 1)

    count[1](X)


@case
def counters_that_are_not_set_back():
    @px.kernel
    def count(X):
        done = px.counters(4)
        px.atomic_add(done[2], 1)

    count[3](X)


@case
def assumption_that_is_never_true():
    @px.kernel
    def trust(X, *, N=-1):
        px.assume(N >= 0)

    trust[1](X)


@case
def assumption_that_is_no_condition():
    @px.kernel
    def trust(X):
        px.assume(X[0:8, 0:8])

    trust[1](X)


@case
def assumption_that_is_false_in_a_run():
    @px.kernel
    def trust(X, m):
        px.assume(m >= 0)
        px.store(X[m : m + 8, 0:8], 1.0)

    trust[1](X, -8)


@case
def pipe_releases_what_it_never_took():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        with px.warps(0, 1):
            pipe.wait()
            pipe.release()
            pipe.release()

    run[1](X)


@case
def pipe_waits_for_more_stages_than_it_has():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        for _ in px.static_range(3):
            pipe.wait()

    run[1](X)


@case
def pipe_left_with_two_stages_taken():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        with px.warps(0, 1):
            pipe.wait()
            pipe.wait()

    run[1](X)


@case
def pipe_block_with_another_stage_in_hand():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        pipe.wait()
        with pipe.consume() as stage:
            px.print(stage)

    run[1](X)


@case
def index_tile_into_a_part_of_a_buffer():
    @px.kernel
    def pick(X):
        s = px.shared((64,), px.f32)
        px.store(X[0, 0:8], px.load(s[0:32][px.arange(8)]))

    pick[1](X)


@case
def two_index_tiles_into_a_buffer():
    @px.kernel
    def pick(X):
        s = px.shared((64, 64), px.f32)
        px.store(X[0:8, 0:8], px.load(s[px.arange(8), px.arange(8)]))

    pick[1](X)


@case
def index_tile_into_a_buffer_that_is_no_index():
    @px.kernel
    def pick(X):
        s = px.shared((64,), px.f32)
        px.store(X[0, 0:8], px.load(s[px.load(X[0, 0:8])]))

    pick[1](X)


@case
def copy_into_rows_of_a_buffer_by_index():
    @px.kernel
    def pick(X):
        s, bar = px.shared((64, 64), px.f32), px.barrier()
        with bar.transaction():
            px.tma.load(X[0:8, 0:64], s[px.arange(8)], bar)

    pick[1](X)


@case
def push_of_rows_by_index():
    @px.kernel(cluster=2)
    def pick(X):
        s, d, bar = px.shared((64,), px.f32), px.shared((8,), px.f32), px.barrier()
        with bar.transaction():
            px.cluster.copy(s[px.arange(8)], d, bar, cta=0)

    pick[2](X)


@case
def product_of_rows_by_index():
    @px.kernel
    def pick(X):
        s = px.shared((64, 64), px.bf16)
        px.store(X[0:64, 0:64], px.dot(s[px.arange(64)], s.T, px.zeros((64, 64), px.f32)))

    pick[1](X)


@case
def load_of_a_region_known_at_run_time():
    @px.kernel
    def part(X, n):
        s = px.shared((64,), px.f32)
        px.store(X[0, 0:8], px.load(s[0:n]))

    part[1](X, 8)


@case
def transaction_around_a_push_of_run_time_bytes():
    @px.kernel(cluster=2)
    def part(X, n):
        s, d, bar = px.shared((64,), px.f32), px.shared((64,), px.f32), px.barrier()
        with bar.transaction():
            px.cluster.copy(s[0:n], d[0:n], bar, cta=px.cluster.rank() ^ 1)

    part[2](X, 8)


@case
def push_between_regions_of_which_one_has_more_axes():
    @px.kernel(cluster=2)
    def part(X, n):
        s, d, bar = px.shared((4, 16), px.f32), px.shared((64,), px.f32), px.barrier()
        px.cluster.copy(s[0:4, 0:n], d[0:n], bar, cta=0, arm=True)

    part[2](X, 8)


@case
def push_of_run_time_columns_between_regions_of_other_rows():
    @px.kernel(cluster=2)
    def part(X, n):
        s, d, bar = px.shared((4, 16), px.f32), px.shared((4, 16), px.f32), px.barrier()
        px.cluster.copy(s[0:4, 0:n], d[0:3, 0:n], bar, cta=0, arm=True)

    part[2](X, 8)


@case
def push_between_regions_of_other_extents():
    @px.kernel(cluster=2)
    def part(X, n):
        s, d, bar = px.shared((64,), px.f32), px.shared((64,), px.f32), px.barrier()
        px.cluster.copy(s[0:n], d[0:32], bar, cta=0, arm=True)

    part[2](X, 8)
