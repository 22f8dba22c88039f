"""What shows before any run: masks, indices, waits that nobody ends, cluster barriers that not all threads reach."""

from __future__ import annotations

import pytest

import phalanx as px
from sanitizer.planted import array, line_of

X, Y = array(256, 64), array(256, 64)


def found(report):
    finding, = report.findings
    assert report.schedules == () and "before any run" in str(report)
    return finding.kind, finding.location.line


def test_a_mask_outside_the_cluster():
    @px.kernel(warps=1, cluster=2)
    def kernel(X, Y):
        bar = px.barrier(count=1, checked=False)
        bar.arrive(ctas=4)  # bug

    assert found(px.check(kernel[2], X, Y)) == ("out-of-bounds", line_of(kernel, "bug"))


def test_an_index_outside_the_barriers():
    @px.kernel(warps=1)
    def kernel(X, Y):
        bar = px.barrier(2)
        bar[0].arrive()
        bar[2].wait(0)  # bug

    assert found(px.check(kernel[1], X, Y)) == ("out-of-bounds", line_of(kernel, "bug"))


def test_a_slice_outside_the_buffer():
    @px.kernel(warps=1)
    def kernel(X, Y):
        s = px.shared((64,), X.dtype)
        px.store(s[32:96], px.load(X[0, 0:64]))  # bug

    assert found(px.check(kernel[1], X, Y)) == ("out-of-bounds", line_of(kernel, "bug"))


def test_a_wait_that_nobody_arrives_for():
    @px.kernel(warps=1)
    def kernel(X, Y):
        bar = px.barrier()  # bug
        bar.wait(0)

    assert found(px.check(kernel[1], X, Y)) == ("deadlock", line_of(kernel, "bug"))


def test_a_cluster_barrier_in_one_role_of_two():
    @px.kernel(warps=2, cluster=2)
    def kernel(X, Y):
        with px.warps(0, 1):
            px.cluster.sync()  # bug
        with px.warps(1, 1):
            px.store(Y[0, 0:64], px.load(X[0, 0:64]))

    assert found(px.check(kernel[2], X, Y)) == ("deadlock", line_of(kernel, "bug"))


def test_a_receiver_that_does_not_arm_its_barrier():
    @px.kernel(warps=1, cluster=2)
    def kernel(X, Y):
        s = px.shared((64, 64), X.dtype)
        bar = px.barrier(count=1, checked=False)
        if px.cluster.rank() == 0:
            with bar.transaction():  # bug
                px.tma.load(X[0:64, 0:64], s, bar, multicast=3)
        bar.wait(0)

    assert found(px.check(kernel[2], X, Y)) == ("tx-mismatch", line_of(kernel, "bug"))


def test_a_region_that_the_copy_engine_refuses():
    @px.kernel(warps=1)
    def kernel(X, Y):
        s = px.shared((32, 30), X.dtype)
        bar = px.barrier()
        with bar.transaction():
            px.tma.load(X[0:32, 0:30], s, bar)  # bug
        bar.wait(0)

    assert found(px.check(kernel[1], X, Y)) == ("misaligned", line_of(kernel, "bug"))


def test_other_mistakes_are_errors_as_without_checks():
    @px.kernel(warps=1)
    def kernel(X, Y):
        undefined(X)  # noqa: F821

    with pytest.raises(px.Error):
        px.check(kernel[1], X, Y)
