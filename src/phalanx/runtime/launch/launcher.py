"""Launching one compiled kernel on one device, in a few microseconds of Python.

The parameter buffer and the launch configuration are prepared once, in C layout. A launch compares the
call's arguments with the last ones, rewrites what changed, and makes one driver call: no allocation, no
synchronisation, so it can be captured into a CUDA graph.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.cuda.abi import TENSOR_MAP_BYTES, ArraySlot, ScalarSlot, Signature
from phalanx.errors import Error, caller_location
from phalanx.runtime.device import driver as cuda
from phalanx.runtime.device.arrays import PER_BYTE, ArgumentKind, ArrayInfo, describe, kind_of
from phalanx.runtime.device.counters import counters_of
from phalanx.runtime.device.map_layout import MapLayout
from phalanx.runtime.device.streams import current_stream, torch_current_stream
from phalanx.runtime.device.tensormap import AddressedMaps, TensorMapCache
from phalanx.runtime.device.torch_tensors import count_versions
from phalanx.runtime.launch.launch_parameters import called, check_array, grid_words, joined_format, match_nothing
from phalanx.runtime.launch.matcher import Matcher, make_matcher

_PORTABLE_CLUSTER = 8
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
CONFIG_BYTES = TENSOR_MAP_BYTES
"""Bytes of a launch's configuration, which is before its parameters: these begin where a descriptor may."""
_DEFAULT_SHARED_BYTES = 48 << 10  # what a kernel may use without asking
_NO_GRID = (-1, -1, -1)  # no launch has this grid
Place = tuple[int, int, Sequence[tuple[int, int, AddressedMaps]]]
"""A pointer's source, the word it is in, and the descriptors of its array: first and last byte, and maps by address."""


class Launcher:
    """One kernel of one cubin on one device.

    `threads` per CTA, `cluster` in CTAs, `shared_bytes` of dynamic shared memory are fixed per compiled
    kernel; `as_cluster` launches single CTAs as clusters of one, without which a copy from shared memory to shared
    memory is an illegal instruction. `overlap` allows the launch to start before its predecessor on the stream has ended
    (programmatic stream serialisation); `cooperative` makes the driver start all CTAs of a launch together, or refuse it.
    Any thread may launch.

        launcher = Launcher(cubin, "copy", signature, device=0, threads=128, shared_bytes=65536)
        launcher.launch((132, 1, 1), (x, y, 2.0))
    """

    def __init__(
        self,
        cubin: bytes,
        name: str,
        signature: Signature,
        *,
        device: int,
        threads: int,
        cluster: tuple[int, int, int] = (1, 1, 1),
        as_cluster: bool = False,
        shared_bytes: int = 0,
        overlap: bool = False,
        cooperative: bool = False,
        driver: cuda.Driver | None = None,
    ) -> None:
        self.name = name
        self.signature = signature
        self.device = device
        self.cluster = cluster
        self.as_cluster = as_cluster or cluster != (1, 1, 1)
        self.driver = driver or cuda.get_driver()
        self._lock = threading.Lock()
        self._at_once: int | None = None
        self.written: tuple[int, ...] = ()  # arguments that the kernel writes
        self._launch_kernel = self.driver.untyped("cuLaunchKernelEx")
        self._enqueue: Any = self._launch_kernel
        self._prepare_config(threads, shared_bytes, overlap, cooperative)
        self._prepare_layout()
        self._prepare_parameters()
        self._module, self.function = self.driver.load_function(device, cubin, name)
        self._given = self._launch_arguments()
        self._prepare_function(shared_bytes)

    # Preparation -------------------------------------------------------------------------------------------

    def _prepare_config(self, threads: int, shared_bytes: int, overlap: bool, cooperative: bool) -> None:
        attributes: list[tuple[int, tuple[int, ...]]] = []
        if self.as_cluster:
            attributes.append((cuda.ATTRIBUTE_CLUSTER_DIMENSION, self.cluster))
        if overlap:
            attributes.append((cuda.ATTRIBUTE_PROGRAMMATIC_SERIALIZATION, (1,)))
        if cooperative:
            attributes.append((cuda.ATTRIBUTE_COOPERATIVE, (1,)))
        self._attributes = (cuda.LaunchAttribute * max(len(attributes), 1))()
        for entry, (number, words) in zip(self._attributes, attributes):
            entry.id = number
            for index, word in enumerate(words):
                entry.value[index] = word
        self._config = cuda.LaunchConfig(
            grid=(0, 0, 0),
            block=(threads, 1, 1),
            shared_bytes=shared_bytes,
            stream=0,
            attributes=ctypes.addressof(self._attributes) if attributes else None,
            attribute_count=len(attributes),
        )
        self._grid_words = grid_words(self._config)
        self._grid: tuple[int, int, int] = _NO_GRID
        self._stream = 0

    def _prepare_layout(self) -> None:
        """What all parameter buffers of the kernel have in common."""
        layout, slots = self.signature.layout, self.signature.slots
        # Descriptors must lie on 64-byte boundaries in the buffer as well: the driver reads them from there.
        self._storage_type = ctypes.c_char * (CONFIG_BYTES + layout.nbytes + TENSOR_MAP_BYTES)
        self._offsets = layout.all
        self._parameters_type = ctypes.c_void_p * max(len(self._offsets), 1)
        self._packers = [struct.Struct(slot.format) for slot in slots]
        self._is_array = tuple(isinstance(slot, ArraySlot) for slot in self.signature.given)
        self._packer = struct.Struct(joined_format(self.signature.given, layout.slots))
        # Per parameter: the word its pointer is in (None for a scalar).
        self._pointer_words = [
            offset // 8 if isinstance(slot, ArraySlot) else None for slot, offset in zip(slots, layout.slots)
        ]
        self._maps = TensorMapCache(self.driver, self.signature.tensor_maps)
        self._map_places = tuple(
            (number, tensor_map.array, tensor_map.expands, start, start + TENSOR_MAP_BYTES, slots[tensor_map.array].name)
            for number, (start, tensor_map) in enumerate(zip(layout.tensor_maps, self.signature.tensor_maps))
        )
        self._stream_source = self._is_array.index(True) if True in self._is_array else None

    def _prepare_parameters(self) -> None:
        self._storage = self._storage_type()
        start = self._start = -ctypes.addressof(self._storage) % TENSOR_MAP_BYTES + CONFIG_BYTES
        base = self._base = ctypes.addressof(self._storage) + start
        self._bytes = memoryview(self._storage).cast("B")[start:]
        self._parameters = self._parameters_type(*[base + offset for offset in self._offsets])
        self._words = self._bytes[: self.signature.layout.nbytes // 8 * 8].cast("P")  # converted sooner than "Q"
        # Per parameter: where its descriptors are.
        self._maps_of: list[list[tuple[int, int, AddressedMaps]]] = []
        self._match: Matcher = match_nothing
        self._values: list[Any] = []
        self._torch_stream: Any = None
        self._debug = 0
        if self.signature.counters:
            self._prepare_counters()

    def _prepare_counters(self) -> None:
        """The last array is the runtime's: each launch gets counters that no other one in flight has."""
        last = len(self.signature.slots) - 1
        self._pack(last, self.signature.slots[last], 0, 1, self.signature.counters)
        found = self._counters()
        assert found is not None
        take, word = found

        def enqueue(*given: Any) -> int:
            self._words[word] = take(self._stream)
            status: int = self._launch_kernel(*given)
            return status

        self._enqueue = enqueue

    def _counters(self) -> tuple[Callable[[int], int], int] | None:
        """What gives a launch its counters, and the word of the parameters that they are in; None for a kernel without."""
        word = self._pointer_words[-1] if self.signature.counters else None
        return None if word is None else (counters_of(self.driver, self.device).take, word)

    def abandon(self) -> None:
        """A launch ended in an error: its counters are in any state, and nobody gets them again."""
        if self.signature.counters:
            counters_of(self.driver, self.device).forget()

    def _prepare_function(self, shared_bytes: int) -> None:
        with self.driver.context(self.device):
            if shared_bytes > _DEFAULT_SHARED_BYTES:
                limit = self.driver.device(self.device).shared_bytes_per_block
                if shared_bytes > limit:
                    raise Error(
                        f"kernel {self.name} needs {shared_bytes} bytes of shared memory, "
                        f"device {self.device} has {limit} per CTA",
                        remedy="use fewer pipeline stages or smaller tiles",
                    )
                self.driver.set_function_attribute(self.function, "max_dynamic_shared_bytes", shared_bytes)
            if self.cluster[0] * self.cluster[1] * self.cluster[2] > _PORTABLE_CLUSTER:
                self.driver.set_function_attribute(self.function, "non_portable_cluster_size", 1)

    def fresh(self) -> Launcher:
        """One of the same kernel with a parameter buffer of its own, so that each may repeat what it launched last."""
        made = object.__new__(Launcher)
        made.__dict__.update(self.__dict__)
        made._lock = threading.Lock()
        made._prepare_parameters()
        made._config = cuda.LaunchConfig.from_buffer(made._storage, made._start - CONFIG_BYTES)
        ctypes.pointer(made._config)[0] = self._config
        made._grid_words = grid_words(made._config)
        made._grid = _NO_GRID
        made._given = made._launch_arguments()
        return made

    def _launch_arguments(self) -> tuple[Any, ...]:
        """What the driver's launch takes, with nothing left to be converted: one is to cost as little as it can."""
        places = ctypes.addressof(self._config), self.function, ctypes.addressof(self._parameters)
        return (*map(cuda.pointer_argument, places), None)

    # Launching ---------------------------------------------------------------------------------------------

    def launch(
        self,
        grid: tuple[int, int, int],
        args: Sequence[Any],
        *,
        stream: int | None = None,
        debug: int = 0,
        infos: Sequence[ArrayInfo | None] | None = None,
    ) -> None:
        """Launch on the arguments' current stream, or on `stream`.

        `debug` is the debug pointer, if any; `infos` are the descriptions of the arguments, where they are known already.
        """
        if not self.try_launch(grid, args, stream, debug):
            with self._lock:
                self._bind(args, infos)
                count_versions(args, self.written)
                self._submit(grid, args, stream, debug)

    def try_launch(
        self, grid: tuple[int, int, int], args: Sequence[Any], stream: int | None = None, debug: int = 0
    ) -> bool:
        """Launch if the arguments have the dtypes, shapes, strides and alignments of the last launch's.

        Otherwise do nothing and return False. So a dispatcher can ask its last launcher first, and
        needs to find out which compiled kernel the arguments take only after a False. Arguments of another device, or
        of the host, give a False, too: they are launched, or simulated, by another.
        """
        lock = self._lock
        lock.acquire()  # `with` takes twice as long
        try:
            values = self._match(args)
            if values is None:
                return False
            if values != self._values:
                try:
                    self._rewrite(values, args)
                except Error:
                    return False
            if stream is None and self._torch_stream is not None:  # the common case of _submit, without the call
                stream = self._torch_stream(self.device)
                if stream == self._stream and grid == self._grid and debug == self._debug:
                    status = self._enqueue(*self._given)
                    if status:
                        self.retry(status)
                    return True
            self._submit(grid, args, stream, debug)
            return True
        finally:
            lock.release()

    def launch_again(self) -> None:
        """The last launch once more, same grid, arguments and stream: nothing is looked at."""
        status = self._enqueue(*self._given)
        if status:
            self.retry(status)

    def _submit(
        self, grid: tuple[int, int, int], args: Sequence[Any], stream: int | None, debug: int
    ) -> None:
        if stream is None:
            if self._torch_stream is not None:
                stream = self._torch_stream(self.device)
            else:
                stream = 0 if self._stream_source is None else current_stream(args[self._stream_source])
        if stream != self._stream:
            self._config.stream = self._stream = stream
        if grid != self._grid:
            self._set_grid(grid)
        if debug != self._debug:
            self._set_debug(debug)
        if 0 in grid:
            self._grid = _NO_GRID
            return  # nothing to do, and the driver would call it an error
        status = self._enqueue(*self._given)
        if status:
            self.retry(status)

    def launch_anew(
        self, grid: tuple[int, int, int], args: Sequence[Any], infos: Sequence[ArrayInfo | None], *, matched: bool = True
    ) -> None:
        """Launch on the arguments' current stream, which the kernel is known to take, with another geometry than the last.

        For a dispatcher that found the kernel by the types and the device of the arguments: none of that is looked at again.
        Unless `matched`, `try_launch` does not repeat it.
        """
        with self._lock:
            self._bind(args, infos, checked=True, matched=matched)
            count_versions(args, self.written)
            self._submit(grid, args, None, 0)

    def bind(
        self, grid: tuple[int, int, int], scalars: Sequence[Any], infos: Sequence[ArrayInfo | None],
        sources: Sequence[int | None],
    ) -> Callable[[tuple[int, ...]], None]:
        """A launch of torch tensors as a function of pointers alone, with a parameter buffer of its own.

        `infos` describe the arrays of one that was made, and `scalars` have the numbers between them; `sources` says for
        each argument which of the pointers it takes that are passed then, None for scalars. Nothing is looked at: who calls
        it knows that dtypes, shapes, strides, alignments and the device are as they were. It runs on torch's current stream
        of the device. Any thread may call it.
        """
        made = self.fresh()
        made._bind(scalars, infos, checked=True, matched=False)
        made._set_grid(grid)
        places: list[Place] = [
            (source, word, tuple(maps))
            for source, word, maps in zip(sources, made._pointer_words, made._maps_of)
            if source is not None and word is not None
        ]
        # Names of this function, not attributes: a launch looks at some ten of them.
        words, image, stream_of, device = made._words, made._bytes, torch_current_stream(), made.device
        enqueue, given, stream = made._launch_kernel, made._given, made._stream
        take, counters = self._counters() or (None, 0)
        last: tuple[int, ...] | None = None

        acquire, release = made._lock.acquire, made._lock.release  # `with` takes twice as long

        def launch(pointers: tuple[int, ...]) -> None:
            nonlocal last, stream
            acquire()
            try:
                if pointers != last:
                    former, last = last, None  # if a descriptor fails, the next launch writes all of them again
                    for source, word, maps in places:
                        pointer = pointers[source]
                        if former is None or pointer != former[source]:
                            words[word] = pointer
                            for start, end, by_address in maps:
                                image[start:end] = by_address[pointer]
                    last = pointers
                current = stream_of(device)
                if current != stream:
                    stream = made._take_stream(current)
                if take is not None:
                    words[counters] = take(current)
                status = enqueue(*given)
                if status:
                    made.retry(status)
            finally:
                release()

        return launch

    def _take_stream(self, stream: int) -> int:
        """The stream of the next launches, as it is given."""
        self._config.stream = self._stream = stream
        return stream

    def enqueue(self, layouts: Sequence[MapLayout]) -> Callable[[tuple[int, ...], tuple[Any, ...], tuple[Any, ...]], None]:
        """A launch of torch tensors as a function of its grid, the fields of its arguments, and those of its descriptors.

        An array's fields are its pointer, strides and sizes; those of descriptors are what these layouts say. Nothing is
        looked at: who calls it knows that the kernel takes arguments of these types, that the grid is one of whole clusters,
        and that the descriptors are such as `tensormap.geometry` allows. It runs on torch's current stream of the device.
        Any thread may call it.
        """
        made = self.fresh()
        starts = self.signature.layout.tensor_maps
        first = starts[0] if starts else 0
        pack_maps = struct.Struct("<" + "".join(layout.format[1:] for layout in layouts)).pack_into
        # Names of this function, not attributes: a launch looks at some ten of them.
        lock, pack, image, words = made._lock, made._packer.pack_into, made._bytes, made._grid_words
        stream_of, device, enqueue, given = torch_current_stream(), made.device, made._enqueue, made._given
        stream = made._stream
        last: tuple[int, ...] = made._grid

        def launch(grid: tuple[int, ...], fields: tuple[Any, ...], maps: tuple[Any, ...]) -> None:
            nonlocal stream, last
            with lock:
                pack(image, 0, *fields)
                if maps:
                    pack_maps(image, first, *maps)
                if grid != last:
                    words[0], words[1], words[2] = last = grid
                current = stream_of(device)
                if current != stream:
                    stream = made._take_stream(current)
                status = enqueue(*given)
                if status:
                    made.retry(status)

        return launch

    def _bind(
        self, args: Sequence[Any], infos: Sequence[ArrayInfo | None] | None = None, *, checked: bool = False,
        matched: bool = True,
    ) -> None:
        """Check and pack all arguments: the first launch, or one with other shapes, strides or types.

        `checked`: they are of the types that the kernel was compiled for, on its device. Unless `matched`, no later launch
        is compared with this one.
        """
        self._match = match_nothing  # if a check fails, the buffer holds a mixture
        if infos is None:
            infos = [describe(x) for x in args]
        given = infos
        infos = [info if info is None or info.dtype_name not in PER_BYTE else info.in_bytes for info in given]
        if not checked:
            self._check(args, infos)
        values: list[Any] = []
        fields: list[Any] = []
        for x, info in zip(args, infos):
            if info is None:
                fields.append(x)
                values.append(x)
            else:
                fields += info.pointer, *info.strides, *info.shape
                values.append(info.pointer)
        try:
            self._packer.pack_into(self._bytes, 0, *fields)
        except (struct.error, OverflowError, TypeError, ValueError):
            for number, (slot, info) in enumerate(zip(self.signature.given, infos)):  # one of them says which it is
                self._pack(
                    number, slot, *((args[number],) if info is None else (info.pointer, *info.strides, *info.shape))
                )
            raise
        maps_of: list[list[tuple[int, int, AddressedMaps]]] = [[] for _ in self._pointer_words]
        self._maps_of = maps_of
        for number, array, expands, start, end, name in self._map_places:
            info = (given if expands else infos)[array]
            assert info is not None  # Signature checks that it is an array's
            maps = self._maps.of(number, info.dtype_name, info.shape, info.strides, name)
            maps_of[array].append((start, end, maps))
            self._bytes[start:end] = maps[info.pointer]
        source = None if self._stream_source is None else args[self._stream_source]
        self._torch_stream = torch_current_stream() if kind_of(source) is ArgumentKind.TORCH else None
        self._remember(values)
        if matched:
            self._match = make_matcher(args, self.written)

    def _check(self, args: Sequence[Any], infos: Sequence[ArrayInfo | None]) -> None:
        """Refuse arguments that the kernel was not compiled for."""
        slots = self.signature.given
        if len(args) != len(slots):
            named = ", ".join(called(slot, number) for number, slot in enumerate(slots))
            raise Error(
                f"kernel {self.name} takes {len(slots)} run-time arguments, got {len(args)}",
                remedy=f"pass {named}" if slots else "pass none: constants were settled when it was compiled",
            )
        for number, (slot, info) in enumerate(zip(slots, infos)):
            if isinstance(slot, ArraySlot):
                check_array(slot, info, number, self.device)
            elif info is not None:
                raise Error(f"{called(slot, number)} is a scalar, got an array", remedy="pass a number")

    def _rewrite(self, values: list[Any], args: Sequence[Any]) -> None:
        """Pack the pointers and scalars that differ from the last launch's; the rest is the same."""
        former = self._values or [None] * len(values)
        self._values = []  # if a check fails, the next launch packs all of them again
        for number, value in enumerate(values):
            if value == former[number]:
                continue
            word = self._pointer_words[number]
            if word is None:
                self._pack(number, self.signature.slots[number], value)
                continue
            x = args[number]
            if kind_of(x) is ArgumentKind.TORCH and x.get_device() != self.device:
                slot = self.signature.slots[number]
                assert isinstance(slot, ArraySlot)
                info = describe(x)
                check_array(slot, info and info.in_bytes, number, self.device)
            self._words[word] = value
            for start, end, maps in self._maps_of[number]:
                self._bytes[start:end] = maps[value]
        self._remember(values)

    def _remember(self, values: list[Any]) -> None:
        # 0.0 == -0.0, yet they are different arguments: a zero is never taken to be unchanged.
        self._values = [None if value == 0 and isinstance(value, float) else value for value in values]

    def _pack(self, number: int, slot: ArraySlot | ScalarSlot, *fields: Any) -> None:
        try:
            self._packers[number].pack_into(self._bytes, self.signature.layout.slots[number], *fields)
        except (struct.error, OverflowError, TypeError, ValueError):
            if isinstance(slot, ArraySlot):
                raise Error(
                    f"{called(slot, number)} has an axis of 2**31 elements or more", remedy="split the array"
                ) from None
            raise Error(
                f"{called(slot, number)} is {slot.dtype}, which can't hold {fields[0]!r}",
                remedy=f"pass a number that fits {slot.dtype}",
            ) from None

    def _set_grid(self, grid: tuple[int, int, int]) -> None:
        for axis, (count, limit, size) in enumerate(zip(grid, _GRID_LIMITS, self.cluster)):
            if not 0 <= count <= limit:
                raise Error(
                    f"grid {tuple(grid)} has {count} CTAs along axis {axis}, the hardware takes 0 to {limit}",
                    remedy="put the longest axis first, or let a CTA loop over several tiles",
                )
            if count % size:
                raise Error(
                    f"grid {tuple(grid)} can't be divided into clusters of {self.cluster}",
                    remedy=f"make axis {axis} of the grid a multiple of {size}",
                )
        self._config.grid[:] = grid
        self._grid = grid

    def _set_debug(self, pointer: int) -> None:
        offset = self.signature.layout.debug
        if offset is not None:
            self._words[offset // 8] = pointer
        self._debug = pointer

    def retry(self, status: int) -> None:
        """A launch failed. In a thread without a context, or with another device's, try with ours."""
        if status in (cuda.INVALID_CONTEXT, cuda.INVALID_HANDLE):
            with self.driver.context(self.device):
                status = self._enqueue(*self._given)
        if status:
            self.abandon()
            raise self.driver.error(status, f"launch of {self.name}").at(caller_location())

    # Questions ---------------------------------------------------------------------------------------------

    def attribute(self, name: str) -> int:
        """An attribute of the loaded kernel: "registers", "local_bytes", "static_shared_bytes"."""
        with self.driver.context(self.device):
            return self.driver.function_attribute(self.function, name)

    @property
    def clusters_at_once(self) -> int:
        """What `max_active_clusters` gives, asked of the driver once."""
        if self._at_once is None:
            self._at_once = self.max_active_clusters()
        return self._at_once

    def max_active_clusters(self) -> int:
        """How many clusters of this kernel (CTAs, without a cluster) the device holds at once."""
        config = cuda.LaunchConfig.from_buffer_copy(self._config)
        config.grid[:] = self.cluster
        with self.driver.context(self.device):
            if self.cluster != (1, 1, 1):
                return self.driver.max_active_clusters(self.function, config)
            per_sm = self.driver.max_active_blocks(self.function, config.block[0], config.shared_bytes)
        return per_sm * self.driver.device(self.device).sm_count


