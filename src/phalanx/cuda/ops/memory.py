"""Loads, stores and atomics of global and shared memory as C++, and the fences between proxies.

Elements outside an array are filled or skipped. Elements that several threads hold are stored by their owner alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NoReturn

from phalanx.cuda.text.helper import Helper
from phalanx.cuda.text.prelude import instruction
from phalanx.cuda.text.registry import emits
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.tiles.arithmetic import cast_text
from phalanx.cuda.tiles.atomics import ATOMIC_DTYPES, VECTOR_ADDITIONS, atomic, strong_load, vector_addition
from phalanx.cuda.tiles.coordinates import first_thread, owner_conditions
from phalanx.cuda.tiles.facts import facts_of
from phalanx.cuda.tiles.global_access import VECTOR_BYTES, GlobalAccess, array_sizes, scalar_pointer, vector_elements
from phalanx.cuda.tiles.index import atom, element, local, plus, slot_loop
from phalanx.cuda.tiles.matrix_load import emit_matrix_load, loads_matrices
from phalanx.cuda.tiles.matrix_store import emit_matrix_store, stores_matrices
from phalanx.cuda.tiles.scratch import Layouts, needs_scratch
from phalanx.cuda.tiles.share import share_scalar, share_tile, shared_bytes_of_tile
from phalanx.cuda.tiles.shared_access import SharedAccess, scalar_place
from phalanx.errors import Error, internal
from phalanx.ir.core import Function, Op
from phalanx.ir.effects import Span
from phalanx.ir.ops.control import While
from phalanx.ir.ops.memory import ATOMICS, Atomic, AtomicCas, AtomicLoad, Extent, FenceAsyncProxy, FenceCluster, Load, Store
from phalanx.ir.types import TileType
from phalanx.ir.values import Param, Value
from phalanx.ir.views import GlobalView, SharedView, View, in_global, in_shared

WORD_BYTES = 4
"""What one register holds: a store of more must not be taken apart."""


@array_sizes(Extent)
def size_along(op: Extent) -> tuple[Param, int]:
    """The array and the axis whose size it defines."""
    return op.array, op.axis


@emits(Extent, expression=True)
def emit_extent(w: Writer, op: Extent) -> None:
    """Writes an extent as a field of the array's struct."""
    w.define(op.result, f"{w.name(op.array)}.shape[{op.axis}]", pure=True)


@emits(FenceAsyncProxy)
def emit_fence_async_proxy(w: Writer, op: FenceAsyncProxy) -> None:
    """Writes `fence.proxy.async`, by every thread."""
    space = "global" if op.space == "global" else f"shared::{op.space}"
    w.line(f"{w.use(instruction(f'fence.proxy.async.{space}'))}();")


@emits(FenceCluster)
def emit_fence_cluster(w: Writer, op: FenceCluster) -> None:
    """Writes `fence.acq_rel.cluster`, by every thread."""
    w.line(f"{w.use(instruction('fence.acq_rel.cluster'))}();")


# ---------------------------------------------------------------------- loads


@emits(Load)
def emit_load(w: Writer, op: Load) -> None:
    """Writes a load from global or shared memory: of a scalar by every thread, of a tile by each its registers."""
    if not isinstance(op.result.type, TileType):
        _load_scalar(w, op)
    elif in_global(op.view):
        _load_global(w, op, op.view)
    elif in_shared(op.view):
        _load_shared(w, op, op.view)
    else:
        _no_text(op, op.view)


def _reaching(w: Writer, view: View) -> Span:
    """The narrowest scope that has every thread of the kernel which may update the memory."""
    if view.space.is_common:
        return view.space.shared_by
    return Span.CLUSTER if w.plan.function.cluster_size > 1 else Span.CTA


def _no_text(op: Op, view: View) -> NoReturn:
    internal(f"{op.mnemonic} of {view.space.name} memory has no CUDA text", op.loc)


def _fill(w: Writer, op: Load) -> str:
    return cast_text(w, w.name(op.fill), scalar_dtype(op.fill), op.view.dtype)


def _load_scalar(w: Writer, op: Load) -> None:
    view = op.view
    if in_global(view):
        pointer, inside = scalar_pointer(w, view)
        if op in _polled(w.plan.function):
            pointer = f"(const volatile {w.ctype(view.dtype)}*)({pointer})"
        w.define(op.result, f"{' && '.join(inside)} ? *({pointer}) : {atom(_fill(w, op))}")
    elif not in_shared(view):
        _no_text(op, view)
    elif view.cta is None:
        w.define(op.result, f"*({scalar_place(w, view, w.plan.buffers[view.buffer].layout)})")
    else:
        place = scalar_place(w, view, w.plan.buffers[view.buffer].layout)
        name = w.name(op.result)
        w.line(f"{w.ctype(view.dtype)} {name};")
        w.line(f"{w.use('load_remote')}<1>(&{name}, {place});")


@functools.lru_cache(maxsize=8)
def _polled(function: Function) -> frozenset[Load]:
    """Scalar loads in while loops: somebody else may change what they read, so every iteration must look again."""
    loops = (op for op in function.walk() if isinstance(op, While))
    inside = (op for loop in loops for block in loop.blocks() for op in block.walk())
    return frozenset(op for op in inside if isinstance(op, Load) and not isinstance(op.result.type, TileType))


def _load_global(w: Writer, op: Load, view: GlobalView) -> None:
    layout = w.plan.layouts[op.result]
    name, fill, slots = w.declare_tile(op.result), _fill(w, op), layout.num_registers
    with w.block():
        access = GlobalAccess(w, view, layout)
        access.declare()
        width = vector_elements(view, layout)
        itemsize = view.dtype.itemsize
        packed = itemsize < 4 <= width * itemsize
        once = op.once and width * itemsize == VECTOR_BYTES
        words = local(w, "words")
        if packed:  # all ways meet in whole words: narrow elements stay packed until somebody computes with them
            w.line(f"unsigned {words}[{slots * itemsize // 4}];")

        def parts_of_vectors() -> None:
            with slot_loop(w, slots, width) as i:
                first, end = access.ends()
                at, place = access.place_along_rows(i, width), access.pointer(i, width)
                target = plus(words, f"{i} / {4 // itemsize}" if i != "0" else i) if packed else plus(name, i)
                load = w.use("load_part_words" if packed else "load_part")
                text = f"{load}<{width}>({target}, {place}, {at}, {first}, {end}, {fill});"
                rows = access.inside_but_rows(i, width)
                w.line(f"if ({' && '.join(rows)}) {text}" if rows else text)
                if rows:
                    otherwise = w.use("fill_words" if packed else "fill_vector")
                    form = f"{width}, {w.ctype(view.dtype)}" if packed else str(width)
                    w.line(f"else {otherwise}<{form}>({target}, {fill});")

        def by_vectors() -> None:
            if view.within:
                parts_of_vectors()
                return
            with slot_loop(w, slots, width) as i:
                conditions = [*access.alive_along_rows(i, width), *access.inside(i, width)]
                inside = (" & " if once else " && ").join(conditions)
                if packed:
                    target = f"{words} + {i} / {4 // itemsize}" if i != "0" else words
                    load, otherwise = w.use("load_words_once" if once else "load_words"), w.use("fill_words")
                else:
                    target = f"{name} + {i}" if i != "0" else name
                    load, otherwise = w.use("load_vector_once" if once else "load_vector"), w.use("fill_vector")
                form = f"{width}, {w.ctype(view.dtype)}" if packed else str(width)
                if once:
                    w.line(f"{otherwise}<{form}>({target}, {fill});")
                    w.line(f"{load}<{width}>({target}, {access.pointer(i, width)}, {inside});")
                else:
                    w.line(f"if ({inside}) {load}<{width}>({target}, {access.pointer(i, width)});")
                    w.line(f"else {otherwise}<{form}>({target}, {fill});")

        def by_elements() -> None:
            if op.shifted and (packed or width * itemsize == VECTOR_BYTES):
                _by_shifts(w, view, access, width, slots, words if packed else name, fill)
                return
            with slot_loop(w, slots) as i:
                inside = " && ".join(access.inside(i))
                w.line(f"{element(name, i)} = {inside} ? *({access.pointer(i)}) : {atom(fill)};")
            if packed:
                w.line(f"{w.use('pack_words')}<{slots}>({words}, {name});")

        _vectors_or_elements(w, access, width, by_vectors, by_elements)
        if packed:
            w.line(f"{w.use('unpack_words')}<{slots}>({name}, {words});")


def _by_shifts(w: Writer, view: GlobalView, access: GlobalAccess, width: int, slots: int, target: str, fill: str) -> None:
    """Vectors of a global array that begin anywhere, out of the aligned ones around them; narrow elements as words."""
    itemsize = view.dtype.itemsize
    shift, start = local(w, "shift"), atom(w.name(view.offsets[-1]))
    w.line(f"const int {shift} = {start} & {width - 1};")
    with slot_loop(w, slots, width) as i:
        at, place = access.place_along_rows(i, width), access.pointer(i, width)
        end = f"{access.array}.shape[{access.rank - 1}] - {at}"
        here = plus(target, f"{i} / {4 // itemsize}" if itemsize < 4 and i != "0" else i)
        if width * itemsize < VECTOR_BYTES:
            load = w.use("load_shifted_words")
            w.line(f"{load}<{width}>({here}, {place}, {shift}, {at}, {end}, {fill});")
        else:
            four = local(w, "four")
            w.line(f"unsigned {four}[4];")
            w.line(f"{w.use('load_shifted')}<{width}>({four}, {place}, {shift}, {at}, {end}, {fill});")
            copy = f"for (int j = 0; j < 4; ++j) ({here})[j] = {four}[j];"
            w.line(copy if itemsize < 4 else f"{w.use('unpack')}<{width}>({here}, {four});")


def _vectors_or_elements(
    w: Writer, access: GlobalAccess, width: int, by_vectors: Callable[[], None], by_elements: Callable[[], None]
) -> None:
    """Vectors where no edge can cut one: known now, or asked at run time, with one answer for all threads."""
    if width == 1:
        by_elements()
        return
    condition = access.whole_vectors(width, facts_of(w))
    if not condition:
        by_vectors()
        return
    with w.block(f"if ({condition})", footer="} else {"):
        by_vectors()
    with w.indent():
        by_elements()
    w.line("}")


def _load_shared(w: Writer, op: Load, view: SharedView) -> None:
    layout, shared = w.plan.layouts[op.result], w.plan.buffers[view.buffer].layout
    how = loads_matrices(view, layout, shared)
    if how is not None:
        emit_matrix_load(w, view, op.result, how, shared, facts_of(w))
        return
    fill = _fill(w, op) if view.index_axis is not None else ""
    name = w.declare_tile(op.result, all_set=bool(fill) or bool(layout.alive.all()))
    with w.block():
        access = SharedAccess(w, view, layout, shared, facts_of(w))
        access.declare()
        width = access.vector
        whole = layout.vector_width(layout.rank - 1, VECTOR_BYTES // view.dtype.itemsize)
        anywhere = op.shifted and view.cta is None and bool(layout.alive.all())
        if anywhere and width < whole == VECTOR_BYTES // view.dtype.itemsize:
            _shifted_from_shared(w, view, access, layout.num_registers, whole, name)
            return
        with slot_loop(w, layout.num_registers, width) as i:
            target = f"{name} + {i}" if i != "0" else name
            alive = " && ".join(access.alive(i, width))
            place = access.place(i, width)
            if view.cta is not None:
                text = f"{w.use('load_remote')}<{width}>({target}, {place});"
            elif width > 1:
                text = f"{w.use('load_vector')}<{width}>({target}, {place});"
            else:
                text = f"{element(name, i)} = *({place});"
            w.line(f"if ({alive}) {text}" if alive else text)
            if fill:
                w.line(f"else {w.use('fill_vector')}<{width}>({target}, {fill});")


def _shifted_from_shared(w: Writer, view: SharedView, access: SharedAccess, slots: int, width: int, name: str) -> None:
    """Vectors of a shared buffer that begin anywhere, out of the aligned ones around them."""
    shift, four = local(w, "shift"), local(w, "four")
    w.line(f"const int {shift} = {atom(w.name(view.offsets[-1]))} & {width - 1};")
    with slot_loop(w, slots, width) as i:
        w.line(f"unsigned {four}[4];")
        w.line(f"{w.use('load_shifted_shared')}({four}, {access.place(i, width)}, {shift});")
        w.line(f"{w.use('unpack')}<{width}>({plus(name, i)}, {four});")


# ---------------------------------------------------------------------- stores


@emits(Store)
def emit_store(w: Writer, op: Store) -> None:
    """Writes a store to global or shared memory: of a scalar by one thread, of a tile by the owners of its elements."""
    if not isinstance(op.value.type, TileType):
        _store_scalar(w, op)
    elif in_global(op.view):
        _store_global(w, op, op.view)
    elif in_shared(op.view):
        _store_shared(w, op, op.view)
    else:
        _no_text(op, op.view)


def _store_scalar(w: Writer, op: Store) -> None:
    view, value = op.view, w.name(op.value)
    if in_global(view):
        pointer, inside = scalar_pointer(w, view)
        w.line(f"if ({' && '.join([first_thread(w), *inside])}) *({pointer}) = {value};")
        return
    if not in_shared(view):
        _no_text(op, view)
    place = scalar_place(w, view, w.plan.buffers[view.buffer].layout)
    if view.cta is None:
        w.line(f"if ({first_thread(w)}) *({place}) = {value};")
    else:
        with w.block(f"if ({first_thread(w)})"):
            name = w.unique("element")
            w.line(f"const {w.ctype(view.dtype)} {name} = {value};")
            w.line(f"{w.use('store_remote')}<1>({place}, &{name});")


def _store_global(w: Writer, op: Store, view: GlobalView) -> None:
    layout = w.plan.layouts[op.value]
    name, slots = w.name(op.value), layout.num_registers
    owner = owner_conditions(w, layout)
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        access = GlobalAccess(w, view, layout)
        access.declare()
        width = vector_elements(view, layout)
        size = width * view.dtype.itemsize
        once = op.once and size == VECTOR_BYTES

        def parts_of_vectors() -> None:
            with slot_loop(w, slots, width) as i:
                first, end = access.ends()
                at, place = access.place_along_rows(i, width), access.pointer(i, width)
                store = w.use("store_part_once" if once else "store_part")
                conditions = [*access.alive(i, width), *access.inside_but_rows(i, width)]
                asked = f"if ({' && '.join(conditions)}) " if conditions else ""
                w.line(f"{asked}{store}<{width}>({place}, {name} + {i}, {at}, {first}, {end});")

        def by_vectors() -> None:
            even = access.even_ends(width, facts_of(w)) if view.within else ""
            if even is None:
                parts_of_vectors()
            elif even:
                with w.block(f"if ({even})", footer="} else {"):
                    whole_vectors()
                with w.indent():
                    parts_of_vectors()
                w.line("}")
            else:
                whole_vectors()

        def whole_vectors() -> None:
            inside = access.inside_even_ends if view.within else access.inside
            with slot_loop(w, slots, width) as i:
                source = f"{name} + {i}" if i != "0" else name
                conditions = [*access.alive(i, width), *inside(i, width)]
                place, apart = access.place(i, width)
                if once or (apart and size > WORD_BYTES):
                    store = w.use("store_vector_once" if once else "store_vector_if")
                    allowed = " & ".join(atom(condition) for condition in conditions)
                    w.line(f"{store}<{width}>({place}, {source}, {allowed});")
                else:
                    w.line(f"if ({' && '.join(conditions)}) {w.use('store_vector')}<{width}>({place}, {source});")

        def by_elements() -> None:
            with slot_loop(w, slots) as i:
                conditions = " && ".join([*access.alive(i), *access.inside(i)])
                w.line(f"if ({conditions}) *({access.pointer(i)}) = {element(name, i)};")

        _vectors_or_elements(w, access, width, by_vectors, by_elements)


def _store_shared(w: Writer, op: Store, view: SharedView) -> None:
    layout = w.plan.layouts[op.value]
    name = w.name(op.value)
    shared = w.plan.buffers[view.buffer].layout
    for turned in (False, True) if layout.rank == 2 else ():  # a fragment, or the transpose of one
        there = view.replaced(kept=view.kept[::-1]) if turned else view
        held = layout.transpose((1, 0)) if turned else layout
        if stores_matrices(there, held, shared):
            emit_matrix_store(w, there, op.value, held, shared, facts_of(w))
            return
    owner = owner_conditions(w, layout)
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        access = SharedAccess(w, view, layout, shared, facts_of(w))
        access.declare()
        width = access.vector
        with slot_loop(w, layout.num_registers, width) as i:
            source = f"{name} + {i}" if i != "0" else name
            alive = " && ".join(access.alive(i, width))
            place = access.place(i, width)
            if view.cta is not None:
                text = f"{w.use('store_remote')}<{width}>({place}, {source});"
            elif width > 1:
                text = f"{w.use('store_vector')}<{width}>({place}, {source});"
            else:
                text = f"*({place}) = {element(name, i)};"
            w.line(f"if ({alive}) {text}" if alive else text)


# ---------------------------------------------------------------------- atomics


@needs_scratch(*ATOMICS, AtomicLoad)
def sharing_scratch(op: Atomic | AtomicLoad, layouts: Layouts) -> int:
    """What one thread reads and all threads that have the element get."""
    if op.result is None:
        return 0
    if isinstance(op.result.type, TileType):
        return shared_bytes_of_tile(layouts[op.result], scalar_dtype(op.result))
    return scalar_dtype(op.result).itemsize


@emits(*ATOMICS)
def emit_atomic(w: Writer, op: Atomic) -> None:
    """Writes atomic updates, of a scalar by one thread, of a tile by the owners of its elements."""
    dtype = op.view.dtype
    if dtype.name not in ATOMIC_DTYPES:
        raise Error(
            f"the hardware has no atomic updates of {dtype}",
            location=op.loc,
            remedy=f"use one of {', '.join(ATOMIC_DTYPES)}",
        )
    result = op.result if op.result is not None and w.uses(op.result) else None
    if not (in_global(op.view) or in_shared(op.view)):
        _no_text(op, op.view)
    space = "remote" if op.view.peer is not None else op.view.space.name
    handshakes = op.effects().handshakes
    ordered = bool(handshakes)
    scope = handshakes[0].scope if ordered else _reaching(w, op.view)
    update = atomic(op.update, dtype.name, space, scope, result is not None, ordered)
    if isinstance(op.value.type, TileType):
        if op.update == "add" and result is None and in_global(op.view) and dtype.name in VECTOR_ADDITIONS:
            _add_vectors(w, op, op.view, update)
        else:
            _atomic_tile(w, op, w.use(update), result)
    else:
        _atomic_scalar(w, op, w.use(update), result)
        if ordered and (result is None or w.agent.warps == 1):  # what one thread acquired is all threads'
            w.sync_agent()


@emits(AtomicLoad)
def emit_atomic_load(w: Writer, op: AtomicLoad) -> None:
    """Writes strong loads by the owners of the elements; others get theirs, since a second look might find another."""
    view, load = op.view, w.use(strong_load(op.view.dtype.name))
    if not in_global(view):
        _no_text(op, view)
    if not isinstance(op.result.type, TileType):
        place, inside = scalar_pointer(w, view)
        name = w.name(op.result)
        w.line(f"{w.ctype(view.dtype)} {name} = 0;")
        w.line(f"if ({' && '.join([first_thread(w), *inside])}) {name} = {load}({place});")
        share_scalar(w, op, name, view.dtype)
        return
    layout, target = w.plan.layouts[op.result], w.declare_tile(op.result)
    owner = owner_conditions(w, layout)
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        access = GlobalAccess(w, view, layout)
        access.declare()
        with slot_loop(w, layout.num_registers) as i:
            condition = " && ".join([*access.alive(i), *access.inside(i)])
            call = f"{load}({access.pointer(i)})"
            w.line(f"{element(target, i)} = {f'{condition} ? {call} : 0' if condition else call};")
    share_tile(w, op, target, op.result)


def _new_elements(w: Writer, op: Atomic, slot: str | None = None) -> str:
    """What an update is given besides the place: the new element, before it the one that is compared."""
    values = [op.compare, op.value] if isinstance(op, AtomicCas) else [op.value]
    return ", ".join(w.name(value) if slot is None else element(w.name(value), slot) for value in values)


def _atomic_scalar(w: Writer, op: Atomic, update: str, result: Value | None) -> None:
    view = op.view
    conditions = [first_thread(w)]
    if in_global(view):
        place, inside = scalar_pointer(w, view)
        conditions += inside
    else:
        assert in_shared(view)
        place = scalar_place(w, view, w.plan.buffers[view.buffer].layout)
    call = f"{update}({place}, {_new_elements(w, op)});"
    if result is None:
        w.line(f"if ({' && '.join(conditions)}) {call}")
        return
    name = w.name(result)
    w.line(f"{w.ctype(view.dtype)} {name} = 0;")
    w.line(f"if ({' && '.join(conditions)}) {name} = {call}")
    share_scalar(w, op, name, view.dtype)


def _add_vectors(w: Writer, op: Atomic, view: GlobalView, update: Helper) -> None:
    """Adds a tile to global memory by as few instructions as its layout and the array's rows allow."""
    layout, name = w.plan.layouts[op.value], w.name(op.value)
    owner = owner_conditions(w, layout)
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        access = GlobalAccess(w, view, layout)
        access.declare()
        width = vector_elements(view, layout)

        unasked = access.surely_inside()

        def by_vectors() -> None:
            add = w.use(vector_addition(view.dtype.name, width))
            with slot_loop(w, layout.num_registers, width) as i:
                asked = [*access.alive(i, width), *(() if unasked else access.inside(i, width))]
                call = f"{add}({access.pointer(i, width)}, {plus(name, i)});"
                w.line(f"if ({' && '.join(asked)}) {call}" if asked else call)

        def by_elements() -> None:
            add = w.use(update)
            with slot_loop(w, layout.num_registers) as i:
                conditions = " && ".join([*access.alive(i), *access.inside(i)])
                w.line(f"if ({conditions}) {add}({access.pointer(i)}, {element(name, i)});")

        _vectors_or_elements(w, access, 1 if view.within else width, by_vectors, by_elements)


def _atomic_tile(w: Writer, op: Atomic, update: str, result: Value | None) -> None:
    view, layout = op.view, w.plan.layouts[op.value]
    target = w.declare_tile(result) if result is not None else ""
    owner = owner_conditions(w, layout)
    with w.block(f"if ({' && '.join(owner)})" if owner else ""):
        if in_global(view):
            outer = GlobalAccess(w, view, layout)
            outer.declare()
        else:
            assert in_shared(view)
            inner = SharedAccess(w, view, layout, w.plan.buffers[view.buffer].layout, facts_of(w))
            inner.declare()
        with slot_loop(w, layout.num_registers) as i:
            if in_global(view):
                conditions, place = [*outer.alive(i), *outer.inside(i)], outer.pointer(i)
            else:
                conditions, place = inner.alive(i), inner.place(i)
            call = f"{update}({place}, {_new_elements(w, op, i)})"
            condition = " && ".join(conditions)
            if result is None:
                w.line(f"if ({condition}) {call};" if condition else f"{call};")
            else:
                w.line(f"{element(target, i)} = {f'{condition} ? {call} : 0' if condition else call};")
    if result is not None:
        share_tile(w, op, target, result)
