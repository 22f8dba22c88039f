"""Roles: warps, registers, boundaries, cluster barriers."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@case
def roles_overlap():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2):
            px.store(X[0], 1.0)
        with px.warps(1, 2):
            px.store(X[1], 1.0)

    split[1](X)


@case
def role_exceeds_the_warps():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(2, 4):
            px.store(X[0], 1.0)

    split[1](X)


@case
def role_without_warps():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(2, 0):
            px.store(X[0], 1.0)

    split[1](X)


@case
def role_of_a_run_time_size():
    @px.kernel(warps=4)
    def split(X, n):
        with px.warps(0, n):
            px.store(X[0], 1.0)

    split[1](X, 2)


@case
def role_inside_a_role():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2):
            with px.warps(0, 1):
                px.store(X[0], 1.0)

    split[1](X)


@case
def two_regions_in_one_with():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2), px.warps(2, 2):
            px.store(X[0], 1.0)

    split[1](X)


@case
def registers_of_half_a_warpgroup():
    @px.kernel(warps=8)
    def split(X):
        with px.warps(2, 2, regs=40):
            px.store(X[0], 1.0)
        with px.warps(4, 4):
            px.store(X[1], 1.0)

    split[1](X)


@case
def registers_of_a_warpgroup_with_two_roles():
    @px.kernel(warps=8)
    def split(X):
        with px.warps(0, 1, regs=40):
            px.store(X[0], 1.0)
        with px.warps(2, 2):
            px.store(X[1], 1.0)
        with px.warps(4, 4, regs=216):
            px.store(X[2], 1.0)

    split[1](X)


@case
def registers_of_a_warpgroup_that_the_kernel_does_not_have():
    @px.kernel(warps=5)
    def split(X):
        with px.warps(0, 4, regs=216):
            px.store(X[0], 1.0)
        with px.warps(4, 1, regs=40):
            px.store(X[1], 1.0)

    split[1](X)


@case
def registers_not_a_multiple_of_eight():
    @px.kernel(warps=8)
    def split(X):
        with px.warps(0, 4, regs=41):
            px.store(X[0], 1.0)
        with px.warps(4, 4):
            px.store(X[1], 1.0)

    split[1](X)


@case
def registers_beyond_the_budget():
    @px.kernel(warps=12)
    def split(X):
        with px.warps(0, 4, regs=240):
            px.store(X[0], 1.0)
        with px.warps(4, 8, regs=240):
            px.store(X[1], 1.0)

    split[1](X)


@case
def code_after_roles_with_registers():
    @px.kernel(warps=8)
    def split(X):
        with px.warps(0, 4, regs=40):
            px.store(X[0], 1.0)
        with px.warps(4, 4, regs=232):
            px.store(X[1], 1.0)
        px.store(X[2], 1.0)

    split[1](X)


@case
def tile_crosses_into_a_role():
    @px.kernel(warps=4)
    def split(X):
        x = px.load(X[0:8])
        with px.warps(0, 2):
            px.store(X[0:8], x)

    split[1](X)


@case
def value_leaves_a_role():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2):
            total = px.sum(px.load(X[0:8]))
        px.store(X[0], total)

    split[1](X)


@case
def break_out_of_a_role():
    @px.kernel(warps=4)
    def split(X):
        for k in range(X.shape[0]):
            with px.warps(0, 2):
                if X[k] > 0:
                    break

    split[1](X)


@case
def return_out_of_a_role_with_code_after_it():
    @px.kernel(warps=4)
    def split(X):
        with px.warps(0, 2):
            if X[0] > 0:
                return
        px.store(X[0], 1.0)

    split[1](X)


@case
def return_of_a_helper_out_of_its_role():
    @px.func
    def produce(X):
        with px.warps(0, 2):
            if X[0] > 0:
                return
            px.store(X[0], 1.0)

    @px.kernel(warps=4)
    def split(X):
        produce(X)

    split[1](X)


@case
def cluster_sync_in_a_role():
    @px.kernel(warps=4, cluster=2)
    def split(X):
        with px.warps(0, 2):
            px.cluster.sync()

    split[2](X)
