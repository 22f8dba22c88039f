"""Drawn calls of every function of the library on tensors that say they lie on a GPU, and what the driver gets of them."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import phalanx as px
from phalanx.cuda import nvrtc
from phalanx.kernels.rowwise.norms_backward import layer_norm_backward, rms_norm_backward
from phalanx.runtime import compiled
from phalanx.runtime.cache import DiskCache
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device import torch_memory
from phalanx.runtime.launch.launcher import Launcher
from support.fake_driver import described, plain_argument, told_of
from support.fake_torch import MEMORY, Tensor, fake_torch_gpu

Call = Callable[[], Any]
ROOM = 1 << 28
"""Bytes between new arrays, which nobody touches."""


class Watched:
    """A fake torch on a fake driver of which each launch is noted: the kernel, its grid, its stream and all its parameters.

    New arrays of a call lie where those of the call before lay, so that two ways to the same launches agree to the byte.
    Descriptors have fields, as `described` lays them out, or are `opaque`: then nothing in them tells what they are of.
    """

    def __init__(self, torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.torch, self.opaque = torch, False
        self.launches: list[tuple[Any, ...]] = []
        self.launchers: dict[int, Launcher] = {}
        self.made = self.status = 0
        handles = itertools.count(4000)
        monkeypatch.setattr(torch.driver, "load_function", lambda device, cubin, name: (1, next(handles)))
        prepare = Launcher._prepare_function

        def prepared(launcher: Launcher, shared_bytes: int) -> None:
            self.launchers[launcher.function] = launcher
            prepare(launcher, shared_bytes)

        monkeypatch.setattr(Launcher, "_prepare_function", prepared)
        monkeypatch.setitem(torch.driver.functions, "cuLaunchKernelEx", self._launch)
        monkeypatch.setitem(torch.driver.functions, "cuTensorMapEncodeTiled", self._encode)
        self.encoded = 0
        self.pool = np.empty(8 * ROOM + 64, np.uint8)
        monkeypatch.setattr(torch_memory, "PART", ROOM)  # what is taken together lies as if it were not
        torch.distinct = torch.empty
        torch.empty, torch.empty_strided = self._empty, self._empty_strided
        torch.empty_like = lambda x: self._empty(x.shape, x.dtype, x.device)
        torch_memory.torch_memory(0)  # which tries torch's functions once

    def _launch(self, *given: Any) -> int:
        config, function, parameters, _ = map(plain_argument, given)
        launcher, told = self.launchers[function], cuda.LaunchConfig.from_address(config)
        layout = launcher.signature.layout
        base = ctypes.c_void_p.from_address(parameters).value - layout.all[0]
        image = bytearray(ctypes.string_at(base, layout.nbytes))
        if launcher.signature.counters:  # which no two launches share
            image[layout.slots[-1] : layout.slots[-1] + 8] = bytes(8)
        self.launches.append((launcher.name, function, tuple(told.grid), told.shared_bytes, told.stream or 0, bytes(image)))
        return self.status

    def _encode(self, *arguments: Any) -> int:
        self._write(*told_of(*arguments))
        return 0

    def _write(self, out: Any, told: tuple[Any, ...]) -> None:
        self.encoded += 1
        if not self.opaque:
            ctypes.memmove(out, described(*told), 128)
            return
        digest = hashlib.sha512(repr(told).encode()).digest()
        ctypes.memmove(out, digest * 2, 128)

    def _empty(self, shape: tuple[int, ...], dtype: Any = None, device: int = 0) -> Tensor:
        start = -self.pool.ctypes.data % 64 + self.made % 8 * ROOM
        self.made += -(-math.prod(shape) * np.dtype(MEMORY[dtype.name]).itemsize // ROOM) or 1
        return Tensor(np.ndarray(tuple(shape), MEMORY[dtype.name], self.pool, start), dtype, device)

    def _empty_strided(self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any = None, device: int = 0) -> Tensor:
        made = self._empty((1,), dtype, device).array
        steps = tuple(step * made.itemsize for step in strides)
        return Tensor(np.lib.stride_tricks.as_strided(made, shape, steps), dtype, device)

    def run(self, call: Call) -> tuple[list[tuple[Any, ...]], Any]:
        """What a call launches, and what it gives back, described."""
        self.launches, self.made = [], 0
        result = call()
        given = [
            x if x is None else (tuple(x.shape), x.stride(), x.dtype.name, x.data_ptr(), x.device)
            for x in (result if isinstance(result, tuple) else (result,))
        ]
        return self.launches, given


class NoCode(nvrtc.Image):
    """What stands for machine code, of kernels by any name."""

    def resources_of(self, function: str) -> nvrtc.Resources:
        return nvrtc.Resources(function, 32, 0, 0, 0, 0, 1)


@contextmanager
def watched_gpu(monkeypatch: pytest.MonkeyPatch, folder: Any) -> Iterator[Watched]:
    """A `Watched` torch; kernels are read and lowered, and no machine code is made of them.

    What stands for machine code is kept in a folder of its own: whoever compiles the same kernel later would load it.
    """
    cache = DiskCache(folder)
    monkeypatch.setattr(compiled, "disk_cache", lambda: cache)
    monkeypatch.setattr(nvrtc, "compile_cuda", lambda source, arch, **_: NoCode(b"cubin", "", "", ()))
    with fake_torch_gpu() as torch:
        yield Watched(torch, monkeypatch)


class Draws:
    """Calls of the library with drawn sizes and strides. Columns are few, since many are kernels of their own."""

    def __init__(self, torch: Any, rng: random.Random) -> None:
        self.torch, self.rng, self.k = torch, rng, px.kernels

    def draw(self, name: str) -> Call:
        """The call of a function: `names` has them."""
        call: Call = getattr(self, f"draw_{name}")()
        return call

    def new(self, *shape: int, dtype: str = "bfloat16", odd: float = 0.0) -> Any:
        """A tensor, with a chance of `odd` one that begins anywhere, or whose rows lie apart."""
        make, kind = self.torch.distinct, getattr(self.torch, dtype)
        if self.rng.random() < odd:
            if self.rng.random() < 0.5:
                return make(shape, kind, offset=kind.itemsize)
            return make((*shape[:-1], shape[-1] + self.rng.choice((3, 8, 64))), kind)[..., : shape[-1]]
        return make(shape, kind)

    def rows(self) -> tuple[int, int]:
        return self.rng.randint(1, 300), self.rng.choice((64, 96, 100, 512, 1024, 4096))

    def draw_softmax(self) -> Call:
        x = self.new(*self.rows(), odd=0.3)
        return lambda: self.k.softmax(x)

    def draw_softmax_mask(self) -> Call:
        rows, columns = self.rows()
        x, mask = self.new(3, rows, columns), self.new(self.rng.choice((1, 3)), rows, columns, dtype="bool")
        return lambda: self.k.softmax(x, scale=0.125, mask=mask)

    def draw_softmax_mask_of_odd_rows(self) -> Call:
        rows, columns, dtype = self.rng.randint(1, 300), self.rng.choice((1001, 3001)), self.rng.choice(("bool", "bfloat16"))
        x = self.new(rows, columns)
        mask = self.new(self.rng.choice((1, rows)), columns, dtype=dtype, odd=0.2)
        return lambda: self.k.softmax(x, mask=mask)

    def draw_log_softmax(self) -> Call:
        x = self.new(self.rng.randint(1, 4), *self.rows(), dtype="float32")
        return lambda: self.k.log_softmax(x)

    def draw_rms_norm(self) -> Call:
        rows, columns = self.rows()
        x, w = self.new(rows, columns, odd=0.2), self.new(columns)
        return lambda: self.k.rms_norm(x, w)

    def draw_layer_norm_of_all_sms(self) -> Call:
        x = self.new(self.rng.randint(1, 60), self.rng.choice((2_000_000, 1_999_992)))
        w, b = self.new(x.shape[1]), self.new(x.shape[1])
        return lambda: self.k.layer_norm(x, w, b)

    def draw_add_rms_norm(self) -> Call:
        rows, columns = self.rows()
        x, r, w = self.new(rows, columns), self.new(rows, columns), self.new(columns)
        return lambda: self.k.add_rms_norm(x, r, w)

    def draw_layer_norm(self) -> Call:
        rows, columns = self.rows()
        x, w, b = self.new(rows, columns, odd=0.2), self.new(columns), self.new(columns)
        return lambda: self.k.layer_norm(x, w, b)

    def draw_rms_norm_backward(self) -> Call:
        rows, columns = self.rows()
        d, x, w = self.new(rows, columns), self.new(rows, columns, odd=0.2), self.new(columns)
        return lambda: rms_norm_backward(d, x, w, of_weight=columns != 96)

    def draw_layer_norm_backward(self) -> Call:
        rows, columns = self.rows()
        d, x = self.new(2, rows, columns), self.new(2, rows, columns)
        w, b = self.new(columns), self.new(columns, dtype="float32") if columns != 96 else None
        return lambda: layer_norm_backward(d, x, w, bias=b)

    def draw_cross_entropy(self) -> Call:
        rows, columns = self.rows()
        x, t = self.new(rows, columns), self.new(rows, dtype="int64")
        return lambda: self.k.cross_entropy(x, t)

    def draw_gather_rows(self) -> Call:
        columns = self.rng.choice((8, 100, 512, 5120))
        x, i = self.new(self.rng.randint(1, 99), columns, odd=0.2), self.new(self.rng.randint(1, 2000), dtype="int64")
        return lambda: self.k.gather_rows(x, i)

    def draw_embedding(self) -> Call:
        ids = self.new(self.rng.randint(1, 9), self.rng.randint(1, 300), dtype="int32")
        w = self.new(1000, self.rng.choice((64, 512)))
        return lambda: self.k.embedding(w, ids)

    def draw_scatter_rows(self) -> Call:
        count, columns = self.rng.randint(1, 999), self.rng.choice((8, 512))
        x, i, out = self.new(count, columns), self.new(count, dtype="int32"), self.new(4096, columns)
        return lambda: self.k.scatter_rows(x, i, out)

    def draw_scatter_add_rows(self) -> Call:
        count, columns = self.rng.randint(1, 999), self.rng.choice((8, 512))
        x, i, out = self.new(count, columns), self.new(count, dtype="int32"), self.new(99, columns)
        return lambda: self.k.scatter_add_rows(x, i, out)

    def draw_kv_compact(self) -> Call:
        batch, kept = self.rng.randint(1, 8), self.rng.randint(1, 64)
        cache, keep = self.new(batch, self.rng.randint(64, 200), 8, 64), self.new(batch, kept, dtype="int32")
        return lambda: self.k.kv_compact(cache, keep, inplace=True)

    def draw_quantize(self) -> Call:
        x = self.new(self.rng.randint(1, 500), self.rng.choice((128, 512)))
        return lambda: self.k.quantize(x, "mxfp8")

    def draw_pack_scales(self) -> Call:
        x = self.new(self.rng.randint(1, 500), self.rng.choice((4, 16, 50)), dtype="float8_e8m0fnu")
        return lambda: self.k.pack_scales(x)

    def draw_matmul(self) -> Call:
        m, n, k = self.rng.randint(100, 900), self.rng.choice((512, 520)), self.rng.choice((256, 264))
        x, w = self.new(m, k), self.new(n, k)
        return lambda: self.k.matmul(x, w.T)

    def draw_matmul_of_odd_sizes(self) -> Call:
        m, n, k = self.rng.randint(600, 900), self.rng.choice((333, 520)), self.rng.choice((257, 264))
        x = self.new(k, m).T if self.rng.random() < 0.3 else self.new(m, k, odd=0.2)
        w = self.new(k, n, odd=0.2) if self.rng.random() < 0.3 else self.new(n, k, odd=0.2).T
        return lambda: self.k.matmul(x, w)

    def draw_matmul_bias(self) -> Call:
        m, n, k = self.rng.randint(100, 900), 512, 256
        x, w, b = self.new(m, k), self.new(k, n), self.new(n)
        return lambda: self.k.matmul(x, w, b, "gelu")

    def draw_matmul_few_rows(self) -> Call:
        x, w = self.new(self.rng.randint(1, 64), 8192), self.new(8192, 8192)
        return lambda: self.k.matmul(x, w.T)

    def draw_matmul_batched(self) -> Call:
        batch, m = self.rng.randint(2, 9), self.rng.randint(100, 700)
        x, w = self.new(batch, m, 256), self.new(self.rng.choice((1, batch)), 256, 256)
        return lambda: self.k.matmul(x, w)

    def draw_split_k_matmul(self) -> Call:
        k = 8 * self.rng.randint(400, 600)
        x, w = self.new(self.rng.randint(1, 16), k), self.new(1024, k)
        return lambda: self.k.split_k_matmul(x, w.T)

    def _groups(self) -> tuple[Any, Any, Any]:
        groups, n = self.rng.choice((4, 8)), self.rng.choice((256, 512))
        return self.new(self.rng.randint(100, 900), 512), self.new(groups, n, 512), self.new(groups, dtype="int32")

    def draw_grouped_matmul(self) -> Call:
        x, w, sizes = self._groups()
        return lambda: self.k.grouped_matmul(x, w, sizes)

    def draw_grouped_matmul_few_rows(self) -> Call:
        x, w = self.new(self.rng.randint(1, 400), 4096), self.new(4, 2048, 4096)
        sizes = self.new(4, dtype="int32")
        return lambda: self.k.grouped_matmul(x, w, sizes)

    def draw_moe_matmul(self) -> Call:
        x, w, sizes = self._groups()
        return lambda: self.k.moe_matmul(x, w, sizes)

    def draw_moe_gather_matmul(self) -> Call:
        x, w, sizes = self._groups()
        i = self.new(self.rng.randint(100, 900), dtype="int32")
        return lambda: self.k.moe_gather_matmul(x, i, w, sizes)

    def draw_moe_gather_matmul_few_rows(self) -> Call:
        x, i, w = self.new(500, 4096), self.new(self.rng.randint(1, 400), dtype="int32"), self.new(4, 2048, 4096)
        sizes = self.new(4, dtype="int32")
        return lambda: self.k.moe_gather_matmul(x, i, w, sizes)

    def draw_moe_matmul_scatter(self) -> Call:
        x, w, sizes = self._groups()
        i, gates = self.new(x.shape[0], dtype="int32"), self.new(x.shape[0], dtype="float32")
        out = self.new(512, w.shape[1])
        return lambda: self.k.moe_matmul_scatter(x, w, sizes, i, gates, out)

    def _heads(self) -> tuple[Any, Any, Any]:
        batch, heads, shared = self.rng.randint(1, 3), self.rng.choice((4, 8)), self.rng.choice((1, 2))
        queries = self.rng.randint(1, 700)
        keys = queries if self.rng.random() < 0.5 else self.rng.randint(1, 700)
        if self.rng.random() < 0.5:
            return self.new(batch, heads, queries, 64), *(self.new(batch, heads // shared, keys, 64) for _ in range(2))
        q = self.new(batch, queries, heads, 64).transpose(1, 2)
        return q, *(self.new(batch, keys, heads // shared, 64).transpose(1, 2) for _ in range(2))

    def draw_attention(self) -> Call:
        q, k, v = self._heads()
        return lambda: self.k.attention(q, k, v)

    def draw_attention_causal(self) -> Call:
        q, k, v = self._heads()
        return lambda: self.k.attention(q, k, v, causal=True, lse=True)

    def draw_attention_backward(self) -> Call:
        q, k, v = self._heads()
        do, o, lse = self.new(*q.shape), self.new(*q.shape), self.new(*q.shape[:3], dtype="float32")
        return lambda: self.k.attention_backward(do, q, k, v, o, lse)

    def draw_attention_decode(self) -> Call:
        batch, kv_heads, capacity = self.rng.randint(1, 40), self.rng.choice((2, 8)), self.rng.randint(1, 3000)
        q, lengths = self.new(batch, 1, 8, 64), self.new(batch, dtype="int32")
        k, v = (self.new(batch, capacity, kv_heads, 64) for _ in range(2))
        return lambda: self.k.attention_decode(q, k, v, lengths)

    def draw_sparse_attention(self) -> Call:
        length = self.rng.randint(64, 500)
        q, k, v = (self.new(1, length, 4, 64) for _ in range(3))
        lists = self.new(1, length, 1, 128, dtype="int32")
        return lambda: self.k.sparse_attention(q, k, v, lists)


NAMES = tuple(sorted(name.removeprefix("draw_") for name in dir(Draws) if name.startswith("draw_")))
