"""Instructions that take more registers than the threads of a CTA begin with: the user's error, which names what helps."""

from __future__ import annotations

import pytest

import phalanx as px


@px.kernel(warps=lambda WARPS: WARPS)
def crowded(A, C, *, WARPS, MOST, LEAST):
    a, b = px.shared((64, 64), px.f16), px.shared((64, 256), px.f16)
    ready = px.barrier()
    with px.warps(0, 4, regs=MOST):
        ready.wait(0)
        acc = px.zeros((64, 256), px.f32)
        px.wgmma(a, b, acc)
        px.wgmma_commit()
        px.wgmma_wait(0)
        px.store(C[0:64, 0:256], acc)
    with px.warps(4, WARPS - 4, regs=LEAST):
        px.store(a, px.load(A[0:64, 0:64]))
        px.fence.async_proxy()
        ready.arrive()


ARGUMENTS = px.spec((64, 64), px.f16), px.spec((64, 256), px.f32)


@pytest.mark.parametrize("most, least", [(96, 96), (160, 80)])
def test_a_product_that_takes_more_registers_than_threads_begin_with(most: int, least: int) -> None:
    with pytest.raises(px.Error) as caught:
        px.compile(crowded[1], *ARGUMENTS, arch="sm_90a", WARPS=20, MOST=most, LEAST=least)
    error = caught.value
    assert error.message == "this takes 154 registers of each thread, and the 640 threads of a CTA begin with 96"
    assert error.location is not None and error.location.text.strip() == "px.wgmma(a, b, acc)"
    assert error.details is not None and error.details.startswith("most registers of a thread hold tiles after test_few")
    assert error.remedy == (
        "write smaller tiles, or let the CTA have 12 warps at most: regs= shares out what threads begin with, and no "
        "instruction may take more than that"
    )


def test_what_the_error_names_helps() -> None:
    assert px.compile(crowded[1], *ARGUMENTS, arch="sm_90a", WARPS=12, MOST=240, LEAST=120).spills == 0
