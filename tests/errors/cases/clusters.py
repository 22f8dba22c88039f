"""Copies and reductions inside a cluster, and pipes: ranks, masks, regions, counts."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros((64, 64), np.float32)


@case
def push_from_another_cta():
    @px.kernel(cluster=2)
    def push(X):
        s, d = px.shared((8, 8), px.f32), px.shared((8, 8), px.f32)
        b = px.barrier()
        px.cluster.copy(s.at(1), d, b, cta=0)

    push[2](X)


@case
def push_without_a_rank():
    @px.kernel(cluster=2)
    def push(X):
        s, d = px.shared((8, 8), px.f32), px.shared((8, 8), px.f32)
        b = px.barrier()
        px.cluster.copy(s, d, b)

    push[2](X)


@case
def push_with_two_ranks():
    @px.kernel(cluster=2)
    def push(X):
        s, d = px.shared((8, 8), px.f32), px.shared((8, 8), px.f32)
        b = px.barrier()
        px.cluster.copy(s, d.at(1), b, cta=1)

    push[2](X)


@case
def push_outside_the_cluster():
    @px.kernel(cluster=2)
    def push(X):
        s, d = px.shared((8, 8), px.f32), px.shared((8, 8), px.f32)
        b = px.barrier()
        px.cluster.copy(s, d, b, cta=2)

    push[2](X)


@case
def push_outside_the_cluster_at_run_time():
    @px.kernel(cluster=2)
    def push(X):
        s, d = px.shared((8, 8), px.f32), px.shared((8, 8), px.f32)
        px.store(s, 0.0)
        px.cluster.copy(s, d, cta=px.cluster.rank() + 1)

    push[2](X)


@case
def push_of_another_size():
    @px.kernel(cluster=2)
    def push(X):
        s, d = px.shared((8, 8), px.f32), px.shared((8, 16), px.f32)
        b = px.barrier()
        px.cluster.copy(s, d, b, cta=1)

    push[2](X)


@case
def push_into_global_memory():
    @px.kernel(cluster=2)
    def push(X):
        s = px.shared((8, 8), px.f32)
        px.cluster.copy(s, X[0:8, 0:8], cta=1)

    push[2](X)


@case
def registers_into_no_rank():
    @px.kernel(cluster=2)
    def push(X):
        d, b = px.shared((8, 8), px.f32), px.barrier()
        px.cluster.store(d, px.load(X[0:8, 0:8]), b)

    push[2](X)


@case
def registers_into_global_memory_of_a_peer():
    @px.kernel(cluster=2)
    def push(X):
        b = px.barrier()
        px.cluster.store(X[0:8, 0:8], px.load(X[0:8, 0:8]), b, cta=1)

    push[2](X)


@case
def registers_of_another_shape():
    @px.kernel(cluster=2)
    def push(X):
        d, b = px.shared((8, 16), px.f32), px.barrier()
        px.cluster.store(d, px.load(X[0:8, 0:8]), b, cta=1)

    push[2](X)


@case
def a_number_for_a_peer():
    @px.kernel(cluster=2)
    def push(X):
        d, b = px.shared((8, 8), px.f32), px.barrier()
        px.cluster.store(d[0, 0], 1.0, b, cta=1)

    push[2](X)


@case
def registers_that_are_too_narrow_to_send():
    @px.kernel(cluster=2)
    def push(X):
        d, b = px.shared((8, 8, 3), px.i8), px.barrier()
        with b.transaction():
            px.cluster.store(d[:, :, 1], px.load(X[0:8, 0:8]).to(px.i8), b, cta=px.cluster.rank() ^ 1)
        b.wait(0)

    px.compile(push[2], X, arch="sm_90a")


@case
def push_that_arms_nothing():
    @px.kernel(cluster=2)
    def push(X):
        s, d = px.shared((8, 8), px.f32), px.shared((8, 8), px.f32)
        px.cluster.copy(s, d, cta=1, arm=True)

    push[2](X)


@case
def copy_of_global_memory_without_a_mask():
    @px.kernel(cluster=2)
    def copy(X):
        s = px.shared((8, 8), px.f32)
        b = px.barrier()
        px.cluster.copy(X[0:8, 0:8], s, b)

    copy[2](X)


@case
def copy_with_mask_and_rank():
    @px.kernel(cluster=2)
    def copy(X):
        s = px.shared((8, 8), px.f32)
        b = px.barrier()
        px.cluster.copy(X[0:8, 0:8], s, b, mask=3, cta=1)

    copy[2](X)


@case
def load_with_a_mask_outside_the_cluster():
    @px.kernel(cluster=2)
    def load(X):
        s = px.shared((8, 8), px.f32)
        b = px.barrier()
        with b.transaction():
            px.cluster.load(X[0:8, 0:8], s, b, ctas=0b111)

    load[2](X)


@case
def load_in_a_cta_that_the_mask_does_not_name():
    @px.kernel(cluster=4)
    def load(X):
        s = px.shared((8, 8), px.f32)
        b = px.barrier()
        with b.transaction():
            px.cluster.load(X[0:8, 0:8], s, b, ctas=0b11)

    load[4](X)


@case
def load_that_a_named_cta_never_runs():
    @px.kernel(cluster=2)
    def load(X):
        s = px.shared((8, 8), px.f32)
        b = px.barrier(count=1)
        b.arrive_and_expect_tx(s.nbytes)
        if px.cluster.rank() == 0:
            px.cluster.load(X[0:8, 0:8], s, b, ctas=0b11)

    load[2](X)


@case
def load_with_masks_that_differ():
    @px.kernel(cluster=4)
    def load(X):
        s = px.shared((8, 8), px.f32)
        b = px.barrier()
        with b.transaction():
            px.cluster.load(X[0:8, 0:8], s, b, ctas=0b1111 >> px.cluster.rank() // 2 * 2 << px.cluster.rank() // 2 * 2)

    load[4](X)


@case
def load_with_a_mask_known_only_at_run_time():
    @px.kernel(cluster=2)
    def load(X, mask):
        s = px.shared((8, 8), px.f32)
        b = px.barrier(count=1)
        b.arrive_and_expect_tx(s.nbytes)
        px.cluster.load(X[0:8, 0:8], s, b, ctas=mask)

    load[2](X, 3)


@case
def load_with_another_count_than_its_mask():
    @px.kernel(cluster=2)
    def load(X):
        s = px.shared((12, 8), px.f32)
        b = px.barrier()
        with b.transaction():
            px.cluster.load(X[0:12, 0:8], s, b, ctas=0b11, count=3)

    load[2](X)


@case
def copy_with_cache_to_a_peer():
    @px.kernel(cluster=2)
    def push(X):
        s = px.shared((12, 8), px.f32)
        px.cluster.copy(s, s, cta=0, cache="evict_first")

    push[2](X)


@case
def pipe_between_ctas_of_a_run_time_mask():
    @px.kernel(warps=2, cluster=2)
    def stream(X, mask):
        s = px.shared((8, 8), px.f32)
        pipe = px.pipe(1, ctas=mask)
        with px.warps(0, 1):
            pipe.acquire()
            pipe.commit(s.nbytes)
            px.tma.load(X[0:8, 0:8], s, pipe.full[0], multicast=mask)
        with px.warps(1, 1):
            pipe.wait()
            pipe.release()

    stream[2](X, 3)


@case
def pipe_filled_by_run_time_masks():
    @px.kernel(warps=2, cluster=2)
    def stream(X, mask):
        s = px.shared((8, 8), px.f32)
        pipe = px.pipe(1)
        with px.warps(0, 1):
            pipe.acquire()
            pipe.commit(s.nbytes)
            px.cluster.copy(X[0:8, 0:8], s, pipe.full[0], mask=mask)
        with px.warps(1, 1):
            pipe.wait()
            pipe.release()

    stream[2](X, 3)


@case
def pipe_with_a_count_that_is_wrong():
    @px.kernel(warps=2, cluster=2)
    def stream(X):
        s = px.shared((8, 8), px.f32)
        pipe = px.pipe(1, count=3)
        with px.warps(0, 1):
            with pipe.produce():
                px.cluster.load(X[0:8, 0:8], s, pipe.full[0], ctas=0b11)
        with px.warps(1, 1):
            with pipe.consume():
                pass

    stream[2](X)


@case
def load_that_can_not_be_divided():
    @px.kernel(cluster=4)
    def load(X):
        s = px.shared((10, 8), px.f32)
        b = px.barrier()
        with b.transaction():
            px.cluster.load(X[0:10, 0:8], s, b, ctas=0b1111)

    load[4](X)


@case
def load_that_no_tma_tile_can_be():
    @px.kernel(cluster=2)
    def load(X):
        s = px.shared((8, 6), px.f32)
        b = px.barrier()
        with b.transaction():
            px.cluster.load(X[0:8, 0:6], s, b, ctas=0b11)
        b.wait(0)

    px.compile(load[2], X, arch="sm_90a")


@case
def ctas_of_a_mask_that_name_different_regions():
    @px.kernel(cluster=2)
    def copy(X):
        s = px.shared((8, 8), px.f32)
        b = px.barrier()
        m = px.cluster.rank() * 8
        with b.transaction():
            px.cluster.copy(X[m : m + 8, 0:8], s, b, mask=0b11)
        b.wait(0)

    copy[2](X)


@case
def more_roles_than_thread_barriers():
    @px.kernel(warps=32)
    def run(X):
        s = px.shared((16, 64), px.f32)
        for i in px.static_range(16):
            with px.warps(2 * i, 2):
                px.store(s[i], px.load(X[i, 0:64]))
                px.sync()

    px.compile(run[1], X, arch="sm_90a")


@case
def cluster_of_more_than_sixteen():
    @px.kernel(cluster=32)
    def run(X):
        px.store(X[0, 0], 0.0)

    run[32](X)


@case
def reduction_that_does_not_exist():
    @px.kernel(cluster=2)
    def reduce(X):
        px.cluster.reduce(px.load(X[0, 0:8]), "mean")

    reduce[2](X)


@case
def reduction_of_a_view():
    @px.kernel(cluster=2)
    def reduce(X):
        px.cluster.reduce(X[0, 0:8], "sum")

    reduce[2](X)


@case
def reduction_of_bools():
    @px.kernel(cluster=2)
    def reduce(X):
        px.cluster.reduce(px.load(X[0, 0:8]) > 0, "max")

    reduce[2](X)


@case
def reduction_that_one_cta_leaves_out():
    @px.kernel(cluster=2)
    def reduce(X):
        x = px.load(X[0, 0:8])
        if px.block_id(0) == 0:
            px.store(X[0, 0:8], px.cluster.reduce(x, "sum"))

    reduce[2](X)


@case
def gather_of_a_view():
    @px.kernel(cluster=2)
    def gather(X):
        px.cluster.gather(X[0, 0:8])

    gather[2](X)


@case
def gather_of_nothing():
    @px.kernel(cluster=2)
    def gather(X):
        px.cluster.gather(())

    gather[2](X)


@case
def gather_of_narrow_elements():
    @px.kernel(cluster=2)
    def gather(X):
        px.cluster.gather(px.load(X[0, 0:8]).to(px.bf16))

    gather[2](X)


@case
def gather_of_two_shapes():
    @px.kernel(cluster=2)
    def gather(X):
        x = px.load(X[0, 0:8])
        px.cluster.gather((x, px.sum(x)))

    gather[2](X)


@case
def gather_of_some_ranks():
    @px.kernel(cluster=4)
    def gather(X):
        x = px.load(X[0, 0:8])
        if px.cluster.rank() < 2:
            px.store(X[0:4, 0:8], px.cluster.gather(x))

    gather[4](X)


@case
def reduction_of_some_ranks():
    @px.kernel(cluster=4)
    def reduce(X):
        x = px.load(X[0, 0:8])
        if px.cluster.rank() < 2:
            px.store(X[0, 0:8], px.cluster.reduce(x, "sum"))

    reduce[4](X)


@case
def pipe_of_no_stages():
    @px.kernel
    def run(X):
        px.pipe(0)

    run[1](X)


@case
def pipe_with_too_many_consumers():
    @px.kernel(warps=2)
    def run(X):
        s = px.shared((2, 8, 8), px.f32)
        pipe = px.pipe(2, consumers=2)
        with px.warps(0, 1):
            with pipe.produce() as stage:
                px.tma.load(X[0:8, 0:8], s[stage], pipe.full[stage])
        with px.warps(1, 1):
            with pipe.consume() as stage:
                px.store(X[0:8, 0:8], px.load(s[stage]))

    run[1](X)


@case
def pipe_left_with_its_stage_in_hand():
    @px.kernel(warps=2)
    def run(X):
        pipe = px.pipe(2)
        for _ in range(4):
            with pipe.consume() as stage:
                if X[0, stage] > 0:
                    continue

    run[1](X)


@case
def pipe_whose_masks_only_a_run_knows():
    @px.kernel(warps=2, cluster=2)
    def run(X, mask):
        s = px.shared((2, 8, 8), px.f32)
        pipe = px.pipe(2)
        with px.warps(0, 1):
            s_ = pipe.acquire()
            px.tma.load(X[0:8, 0:8], s[s_], pipe.full[s_], multicast=mask)
            pipe.commit(256)
        with px.warps(1, 1):
            with pipe.consume() as stage:
                px.store(X[0:8, 0:8], px.load(s[stage]))

    run[2](X, 3)


@case
def pipe_has_no_such_method():
    @px.kernel
    def run(X):
        pipe = px.pipe(2)
        pipe.push()

    run[1](X)
