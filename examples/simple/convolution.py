"""Images (N, H, W, C) with filters (R, S, K, C): a product with a step for each pixel of the filter and piece of C."""

from arrays import case, checked, convolved, main, normal

import phalanx as px


@px.kernel(warps=4)
def convolution(X, F, Y, *, R=3, S=3, BM=64, BN=128, BC=64):
    image, row = px.block_id(2) // X.shape[1], px.block_id(2) % X.shape[1]
    w, n, pieces = px.block_id(0) * BM, px.block_id(1) * BN, px.cdiv(X.shape[3], BC)
    acc = px.zeros((BM, BN), px.f32)
    for t in px.pipelined(range(R * S * pieces)):
        r, s, c = t // pieces // S, t // pieces % S, t % pieces * BC
        left = w + s - S // 2  # what lies outside the image is 0
        pixels = px.load(X[image, row + r - R // 2, left : left + BM, c : c + BC])
        acc = px.dot(pixels, px.load(F[r, s, n : n + BN, c : c + BC]).T, acc)
    px.store(Y[image, row, w : w + BM, n : n + BN], acc.to(Y.dtype))


def example(rng, images: int = 2, height: int = 2, width: int = 70, channels: int = 72, filters: int = 72):
    x, f = normal(rng, images, height, width, channels), normal(rng, 3, 3, filters, channels)
    return case(convolution[px.cdiv(width, 64), px.cdiv(filters, 128), images * height], [x, f], convolved(x, f))


@px.example
def small():
    return checked(example)


if __name__ == "__main__":
    main(example)
