"""Launches: arguments, constants, grids, decorators."""

import dataclasses

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@px.kernel
def fill(X, value, *, BLOCK=64):
    i = px.block_id(0) * BLOCK
    px.store(X[i : i + BLOCK], value)


@px.kernel
def needs(X, *, BM, BN):
    px.store(X[0:BM], float(BN))


@px.kernel(cluster=(2, 1))
def clustered(X):
    px.store(X[0], px.cluster.rank())


@case
def too_few_arguments():
    fill[1](X)


@case
def unknown_constant():
    fill[1](X, 1.0, BLOK=32)


@case
def run_time_argument_by_name():
    fill[1](X, value=1.0)


@case
def missing_constants():
    needs[1](X)


@case
def constant_is_a_list():
    needs[1](X, BM=[1, 2], BN=3)


@case
def constant_is_an_object():
    needs[1](X, BM=object(), BN=3)


@case
def argument_is_an_object():
    fill[1](X, "one")


@case
def argument_is_a_list():
    fill[1]([1.0, 2.0], 1.0)


@case
def array_of_complex_numbers():
    fill[1](np.zeros(64, np.complex64), 1.0)


@case
def array_of_another_byte_order():
    fill[1](np.zeros(64, ">f4"), 1.0)


@case
def array_with_odd_strides():
    records = np.zeros(8, [("a", np.int8), ("b", np.float32)])
    fill[1](records["b"], 1.0)


@case
def integer_beyond_64_bits():
    fill[1](X, 2**70)


@case
def read_only_array():
    locked = np.zeros(64, np.float32)
    locked.flags.writeable = False
    fill[1](locked, 1.0)


@case
def spec_instead_of_data():
    fill[1](px.spec(64, px.f32), 1.0)


@case
def grid_is_a_float():
    fill[1.5](X, 1.0)


@case
def grid_is_negative():
    fill[-1](X, 1.0)


@case
def grid_of_four_dimensions():
    fill[1, 1, 1, 1](X, 1.0)


@case
def grid_is_huge():
    fill[1, 70000](X, 1.0)


@case
def grid_is_no_multiple_of_the_cluster():
    clustered[3](X)


@case
def grid_function_asks_for_something_else():
    fill[lambda BM, BN: BM](X, 1.0)


@case
def kernel_without_a_grid():
    fill(X, 1.0)


@case
def too_many_warps():
    @px.kernel(warps=64)
    def wide(X):
        px.store(X[0], 1.0)

    wide[1](X)


@case
def cluster_too_large():
    @px.kernel(cluster=(8, 4))
    def wide(X):
        px.store(X[0], 1.0)

    wide[32](X)


@case
def kernel_with_star_arguments():
    @px.kernel
    def wide(*arrays):
        pass


@case
def run_time_parameter_with_a_default():
    @px.kernel
    def wide(X, scale=1.0):
        pass


@case
def kernel_of_something_else():
    px.kernel(3)


@case
def compile_without_a_grid():
    px.compile(fill, px.spec(64, px.f32), 1.0)


@case
def spec_of_a_numpy_dtype():
    px.spec((64, 64), np.float32)


@case
def spec_of_a_negative_size():
    px.spec((64, -1), px.f32)


@px.kernel
def staged(X, *, STAGES=px.auto, SIZE=64):
    s = px.shared((STAGES, SIZE), px.f32)
    px.store(s[0], px.load(X[0:SIZE]))
    px.store(X[0:SIZE], px.load(s[0]))


@case
def two_constants_to_choose():
    staged[1](X, SIZE=px.auto)


@case
def fewest_stages_do_not_fit():
    staged[1](X, SIZE=65536)


@case
def nothing_to_choose_stages_by():
    @px.kernel
    def plain(X, *, STAGES=px.auto):
        px.store(X[0:64], px.load(X[0:64]) * STAGES)

    plain[1](X)


@case
def bounds_of_auto():
    staged[1](X, STAGES=px.auto(least=8, most=4))


@case
def dependent_launch_without_a_wait():
    @px.kernel(pdl=True)
    def early(X):
        px.store(X[0:64], 1.0)

    early[1](X)


@case
def cooperative_launch_that_begins_early():
    @px.kernel(pdl=True, cooperative=True)
    def together(X):
        px.wait_prior()

    together[1](X)


@case
def cooperative_of_another_type():
    @px.kernel(cooperative=2)
    def together(X):
        px.store(X[0:64], 1.0)

    together[1](X)


@case
def pdl_of_another_type():
    @px.kernel(pdl="always")
    def early(X):
        px.wait_prior()

    early[1](X)


@px.kernel
def ones(X):
    px.store(X[0:64], 1.0)


@case
def grid_is_a_type():
    ones[int](X)


@case
def grid_is_an_array():
    ones[np.array([1])](X)


@case
def grid_of_a_float_that_equals_one_before():
    ones[(1,)](np.zeros(64, np.float32))
    ones[(1.0,)](np.zeros(64, np.float32))


@case
def grid_of_a_bool_that_equals_one_before():
    ones[(1,)](np.zeros(64, np.float32))
    ones[(True,)](np.zeros(64, np.float32))


@case
def warps_is_a_type():
    @px.kernel(warps=int)
    def typed(X):
        px.store(X[0:64], 1.0)

    typed[1](X)


@case
def check_of_a_spec():
    px.check(ones[1], px.spec((64,), px.f32))


@case
def explore_of_a_spec():
    px.explore(ones[1], px.spec((64,), px.f32))


@case
def seed_of_a_check():
    px.check(ones[1], X, seed="x")


@case
def executor_of_a_check():
    px.check(ones[1], X, executor=3)


@case
def executor_of_an_exploration():
    px.explore(ones[1], X, executor=3)


@case
def eps_of_a_norm():
    px.kernels.rms_norm(np.ones((4, 64), np.float32), eps=None)


@case
def configuration_of_a_norm():
    px.kernels.layer_norm(np.ones((4, 64), np.float32), config=3)


@case
def cluster_is_a_function_of_kernels():
    @px.kernel(cluster=px.barrier)
    def barred(X):
        px.store(X[0:64], 1.0)

    barred[1](X)


@px.struct
class Ends:
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Cut:
    rows: int = 4

    @property
    def bytes(self):
        return 4 * self.rows


CUT = Cut()


@dataclasses.dataclass
class Changing:
    rows: int = 4


@px.kernel
def between(X, ends: Ends, value, *, cut=CUT):
    px.store(X[ends.first : ends.first + cut.rows], value)


@case
def tuple_for_a_struct():
    between[1](X, (0, 4), 1.0)


@case
def field_of_a_struct_is_an_object():
    between[1](X, Ends(0, "4"), 1.0)


@case
def unknown_field_of_a_constant():
    @px.kernel
    def unknown(X, *, cut=CUT):
        px.store(X[0:4], cut.colums)

    unknown[1](X)


@case
def constant_is_a_dataclass_that_changes():
    between[1](X, Ends(0, 4), 1.0, cut=Changing())


@case
def line_info_that_is_no_flag():
    @px.kernel(warps=1)
    def nothing(X):
        px.store(X[0:4], px.zeros((4,), px.f32))

    px.compile(nothing[1], px.spec((4,), px.f32), line_info="yes")


@case
def bounds_are_asked_for_by_another_word():
    px.check(fill[1], X, 1.0, bounds="strict")
