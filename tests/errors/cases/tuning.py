"""Searches: what px.tune is given."""

import os

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@px.kernel
def fill(X, *, BLOCK=64):
    i = px.block_id(0) * BLOCK
    px.store(X[i : i + BLOCK], 1.0)


def clock(run, config):
    return 1.0


def touch(x, *, by):
    x[:] = by


@case
def tuning_host_arrays():
    px.tune(fill[1], [dict(BLOCK=32)], (X,))


@case
def tuning_without_a_grid():
    px.tune(fill, [dict(BLOCK=32)], (X,), measure=clock)


@case
def tuning_with_two_grids():
    px.tune(fill[1], [dict(BLOCK=32)], (X,), grid=2, measure=clock)


@case
def tuning_a_function_with_a_grid():
    px.tune(touch, [dict(by=1)], (X,), grid=2, measure=clock)


@case
def tuning_something_else():
    px.tune(3, [dict(BLOCK=32)], (X,), measure=clock)


@case
def no_configurations():
    px.tune(fill[1], [], (X,), measure=clock)


@case
def one_dict_of_configurations():
    px.tune(fill[1], dict(BLOCK=[32, 64]), (X,), measure=clock)


@case
def a_configuration_is_a_number():
    px.tune(fill[1], [32, 64], (X,), measure=clock)


@case
def a_configuration_with_an_unknown_constant():
    px.tune(fill[1], [dict(BLOK=32)], (X,), measure=clock)


@case
def unknown_mode():
    px.tune(fill[1], [dict(BLOCK=32)], (X,), measure=clock, mode="quick")


@case
def no_rounds():
    px.tune(fill[1], [dict(BLOCK=32)], (X,), measure=clock, rounds=0)


@case
def checking_a_function():
    px.tune(touch, [dict(by=1)], (X,), measure=clock, check=True)


@case
def a_spec_for_a_function():
    px.tune(touch, [dict(by=1)], (px.spec(64, px.f32),), measure=clock)


@case
def a_clock_that_can_not_travel():
    px.tune(fill[1], [dict(BLOCK=32)], (X,), measure=lambda run, config: 1.0, force=True)


@case
def a_function_that_can_not_travel():
    def local(x, *, by):
        x[:] = by

    px.tune(local, [dict(by=1)], (X,), measure=clock, force=True)


@case
def an_array_with_negative_strides():
    px.tune(fill[1], [dict(BLOCK=32)], (X[::-1],), measure=clock)


@case
def every_configuration_fails():
    px.tune(fill[1], [dict(BLOCK=-3)], (X,), measure=clock, isolate=False, force=True)


@case
def tuning_inside_a_worker():
    os.environ["PHALANX_TUNING_WORKER"] = "1"
    try:
        px.tune(fill[1], [dict(BLOCK=32)], (X,), measure=clock)
    finally:
        del os.environ["PHALANX_TUNING_WORKER"]


@case
def a_reference_that_is_an_array():
    px.tune(fill[1], [dict(BLOCK=32)], (X,), measure=clock, reference=X)


@case
def a_reference_with_an_unknown_constant():
    px.tune(fill[1], [dict(BLOCK=32)], (X,), measure=clock, reference=dict(BLOK=32))


@case
def a_reference_by_numbers():
    px.tune(touch, [dict(by=1)], (X,), measure=clock, reference={1: 2})


@case
def a_reference_that_does_not_compile():
    px.tune(fill[1], [dict(BLOCK=32)], (X,), measure=clock, reference=dict(BLOCK=-3))


@px.kernel
def filled(X, *, BLOCK=px.choose(32, 64)):
    i = px.block_id(0) * BLOCK
    px.store(X[i : i + BLOCK], 1.0)


@case
def nothing_to_choose_from():
    px.tune(fill[1], args=(X,), on="model")


@case
def tuning_on_another_thing():
    px.tune(filled[1], args=(X,), on="paper")


@case
def measuring_none_of_the_best():
    px.tune(filled[1], args=(X,), best=0)


@case
def the_best_on_the_model():
    px.tune(filled[1], args=(X,), best=2, on="model")


@case
def a_function_on_the_model():
    px.tune(touch, [dict(by=1)], (X,), on="model")


@case
def autotuning_a_function():
    @px.autotune
    def plain(X):
        pass


@case
def autotuning_by_a_name_that_is_no_argument():
    px.autotune(key=["N"])(filled)


@case
def autotuning_what_is_pruned():
    px.autotune(prune=lambda BLOCK: BLOCK > 100)(filled)
