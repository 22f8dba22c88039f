"""The CUDA text of products whose operands go through shared memory, run on the CPU thread by thread, for each target."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import phalanx as px
import plain_products as kernels
from host_cuda import COMPILER, MISSING, launch, module_for

pytestmark = pytest.mark.skipif(COMPILER is None, reason=MISSING)

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
