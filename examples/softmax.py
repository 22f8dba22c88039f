"""2. Row softmax: reductions along an axis. A CTA holds whole rows in registers; columns past the end are -inf."""

import numpy as np
from common import Case, checked, main

import phalanx as px


@px.kernel(warps=4)
def softmax(X, Y, *, BM=4, BN=1024):
    m = px.block_id(0) * BM
    x = px.load(X[m : m + BM, 0:BN], fill=-float("inf")).to(px.f32)
    e = px.exp(x - px.max(x, axis=1, keepdims=True))
    px.store(Y[m : m + BM, 0:BN], (e / px.sum(e, axis=1, keepdims=True)).to(Y.dtype))


def reference(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True)).astype(x.dtype)


def example(rng: np.random.Generator, rows: int = 133, columns: int = 781) -> Case:
    x = rng.standard_normal((rows, columns), np.float32)
    width = max(128, 1 << (columns - 1).bit_length())
    return Case(
        softmax[px.cdiv(rows, 4)], [x, np.zeros_like(x)], {1: reference(x)}, {"BM": 4, "BN": width}, tolerance=1e-6
    )


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
