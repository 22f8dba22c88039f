"""Products of the library on Blackwell: block scales, groups, and configurations by hand."""

import ml_dtypes
import numpy as np

import phalanx as px
from errors.casebook import case
from phalanx.kernels.products.grouped import GroupedConfig
from phalanx.kernels.products.matmul import BlackwellConfig, MatmulConfig

E4M3, E8M0, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, ml_dtypes.float4_e2m1fn
A, B = np.zeros((40, 64), E4M3), np.zeros((24, 64), E4M3).T
SCALE_A, SCALE_B = np.ones((40, 2), E8M0), np.ones((24, 2), E8M0)
FOUR = np.zeros((40, 64), E2M1)
HALF, OTHER = np.zeros((64, 64), ml_dtypes.bfloat16), np.zeros((64, 64), ml_dtypes.bfloat16)
WEIGHTS = np.zeros((2, 64, 64), ml_dtypes.bfloat16)


@case
def block_scales_of_one_operand():
    px.kernels.matmul(A, B, scale_a=SCALE_A, scale_b=2.0)


@case
def block_scales_of_another_shape():
    px.kernels.matmul(A, B, scale_a=SCALE_A[:8], scale_b=SCALE_B)


@case
def block_scales_of_two_types():
    px.kernels.matmul(A, B, scale_a=SCALE_A, scale_b=np.ones((24, 4), E4M3))


@case
def block_scales_of_a_type_for_4_bits():
    px.kernels.matmul(A, B, scale_a=np.ones((40, 4), E4M3), scale_b=np.ones((24, 4), E4M3))


@case
def block_scales_of_16_bit_operands():
    px.kernels.matmul(HALF, OTHER, scale_a=SCALE_A, scale_b=SCALE_B)


@case
def block_scales_of_a_batch():
    px.kernels.matmul(A[None], B, scale_a=SCALE_A, scale_b=SCALE_B)


@case
def block_scales_of_half_a_block():
    px.kernels.matmul(A[:, :48], B[:48], scale_a=SCALE_A, scale_b=SCALE_B)


@case
def block_scales_on_hopper():
    px.kernels.matmul(A, B, scale_a=SCALE_A, scale_b=SCALE_B, arch="sm_90a")


@case
def four_bits_without_block_scales():
    px.kernels.matmul(FOUR, FOUR.T)


@case
def four_bits_beside_eight():
    px.kernels.matmul(FOUR, B, scale_a=SCALE_A, scale_b=SCALE_B)


@case
def four_bits_across_k():
    px.kernels.matmul(FOUR, np.zeros((64, 24), E2M1), scale_a=SCALE_A, scale_b=SCALE_B)


@case
def four_bits_across_k_on_the_left():
    px.kernels.matmul(FOUR.T, FOUR, scale_a=SCALE_A, scale_b=SCALE_B)


@case
def four_bits_in_rows_of_24_bytes():
    codes, scales = FOUR[:, :48].copy(), np.ones((40, 3), E4M3)
    px.kernels.matmul(codes, codes.T, scale_a=scales, scale_b=scales)


@case
def tensor_scale_without_block_scales():
    px.kernels.matmul(A, B, tensor_scale=2.0)


@case
def tensor_scale_that_is_a_vector():
    px.kernels.matmul(A, B, scale_a=SCALE_A, scale_b=SCALE_B, tensor_scale=np.ones(40, np.float32))


@case
def unknown_target():
    px.kernels.matmul(HALF, OTHER, arch="sm_42")


@case
def configuration_of_hopper():
    px.kernels.matmul(HALF, OTHER, config=MatmulConfig(), arch="sm_100a")


@case
def configuration_of_blackwell_on_hopper():
    px.kernels.matmul(HALF, OTHER, config=BlackwellConfig(), arch="sm_90a")


@case
def configuration_with_48_columns():
    px.kernels.matmul(HALF, OTHER, config=BlackwellConfig(48))


@case
def configuration_with_stages_of_half_a_row():
    px.kernels.matmul(HALF, OTHER, config=BlackwellConfig(bk=32))


@case
def configuration_with_large_clusters():
    px.kernels.matmul(HALF, OTHER, config=BlackwellConfig(cluster=(3, 3)))


@case
def configuration_with_shares_of_half_a_panel():
    px.kernels.matmul(HALF, OTHER, config=BlackwellConfig(32))


@case
def configuration_with_half_a_block_of_scales():
    px.kernels.matmul(A, B, scale_a=SCALE_A, scale_b=SCALE_B, config=BlackwellConfig(64, 128))


@case
def groups_with_a_configuration_of_hopper():
    px.kernels.grouped_matmul(HALF, WEIGHTS, [32, 32], config=GroupedConfig(), arch="sm_100a")


@case
def experts_with_64_rows():
    px.kernels.moe_matmul(HALF, WEIGHTS, [32, 32], arch="sm_100a", BM=64)


@case
def experts_with_stages():
    px.kernels.moe_matmul(HALF, WEIGHTS, [32, 32], arch="sm_100a", STAGES=4)
