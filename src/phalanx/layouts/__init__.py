"""Layouts: one algebra of linear maps over bits for registers, shared and tensor memory, TMA boxes and MMA fragments."""

from phalanx.layouts.banks import Wavefronts, access_conflicts, best_vector, shared_offsets, warp_wavefronts
from phalanx.layouts.blocked import blocked, vector_for
from phalanx.layouts.convert import Conversion, Identity, RegisterPermute, Shuffle, ShuffleStep, plan_conversion
from phalanx.layouts.draw import draw_linear, draw_registers, draw_shared
from phalanx.layouts.execute import execute
from phalanx.layouts.expressions import linear_expression
from phalanx.layouts.fragments import wgmma_accumulator
from phalanx.layouts.linear import LinearLayout
from phalanx.layouts.registers import (
    AxisBits,
    Projection,
    RegisterLayout,
    Replication,
    collect,
    distribute,
    operand_layout,
    padded,
)
from phalanx.layouts.scratch import Round, ThroughShared
from phalanx.layouts.shared import SharedLayout
from phalanx.layouts.tcgen05 import ProductStep, descriptor_of, split_product, tcgen05_operand
from phalanx.layouts.tcgen05_words import InstructionDescriptor, SharedDescriptor
from phalanx.layouts.tensor_access import AccessStep, TensorAccess, tensor_accesses
from phalanx.layouts.tensor_copy import CopyPlan, CopyStep, plan_copy
from phalanx.layouts.tensor_memory import TensorLayout, accumulator, scales, tensor_operand
from phalanx.layouts.tma import BoxPiece, BoxPlan, boxes, check_descriptor, choose_panel, choose_swizzle

__all__ = [
    # the algebra
    "LinearLayout",
    "linear_expression",
    # registers
    "RegisterLayout",
    "Projection",
    "Replication",
    "AxisBits",
    "blocked",
    "vector_for",
    "wgmma_accumulator",
    "operand_layout",
    "padded",
    "distribute",
    "collect",
    # shared memory
    "SharedLayout",
    "Wavefronts",
    "access_conflicts",
    "warp_wavefronts",
    "best_vector",
    "shared_offsets",
    # tensor memory
    "TensorLayout",
    "accumulator",
    "tensor_operand",
    "scales",
    "TensorAccess",
    "AccessStep",
    "tensor_accesses",
    "CopyPlan",
    "CopyStep",
    "plan_copy",
    # products of tcgen05
    "SharedDescriptor",
    "InstructionDescriptor",
    "tcgen05_operand",
    "descriptor_of",
    "ProductStep",
    "split_product",
    # TMA
    "BoxPlan",
    "BoxPiece",
    "boxes",
    "choose_panel",
    "choose_swizzle",
    "check_descriptor",
    # conversions
    "Conversion",
    "Identity",
    "RegisterPermute",
    "Shuffle",
    "ShuffleStep",
    "ThroughShared",
    "Round",
    "plan_conversion",
    "execute",
    # pictures
    "draw_linear",
    "draw_registers",
    "draw_shared",
]
