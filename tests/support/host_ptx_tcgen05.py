"""PTX of tensor memory and tensor cores as C++, for `host_ptx`: only which operand is which; what it means is in `host/`."""

from __future__ import annotations

from support.host_ptx import Instruction, form

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_BLOCKS = {"block16": 16, "block32": 32}
_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}


def _group(i: Instruction) -> str:
    group = i.take_value("cta_group::")
    if not group:
        raise i.refuse()
    return group


def _whole_warp(i: Instruction) -> None:
    if not i.take("sync") or not i.take("aligned"):
        raise i.refuse()


@form("tcgen05.alloc")
def _alloc(i: Instruction) -> str:
    group = _group(i)
    _whole_warp(i)
    i.take("shared::cta"), i.take("b32")
    i.done(2)
    return f"px_tmem_alloc({i.address(i.operands[0])}, {i.value(i.operands[1])}, {group});"


@form("tcgen05.dealloc")
def _dealloc(i: Instruction) -> str:
    group = _group(i)
    _whole_warp(i)
    i.take("b32")
    i.done(2)
    return f"px_tmem_free({i.value(i.operands[0])}, {i.value(i.operands[1])}, {group});"


@form("tcgen05.relinquish_alloc_permit")
def _relinquish(i: Instruction) -> str:
    group = _group(i)
    _whole_warp(i)
    i.done(0)
    return f"px_tmem_relinquish({group});"


def _access(i: Instruction) -> tuple[str, str, str]:
    """The shape, how often, and whether halves of words are packed or unpacked."""
    _whole_warp(i)
    i.take("b32")
    packed = str(bool(i.take("pack::16b", "unpack::16b"))).lower()
    times = i.take_value("x")
    if not times or len(i.parts) != 1:
        raise i.refuse()
    return i.parts.pop(), times, packed


@form("tcgen05.ld")
def _ld(i: Instruction) -> str:
    if "unpack::16b" in i.parts:
        raise i.refuse()
    shape, times, packed = _access(i)
    i.done(3 if shape == "16x32bx2" else 2)
    to = i.values(i.operands[0])
    split = i.value(i.operands[2]) if shape == "16x32bx2" else "0"
    back = " ".join(f"px_put({part}, px_w[{n}]);" for n, part in enumerate(to))
    return (
        f'unsigned px_w[{len(to)}]; px_tmem_load("{shape}", {times}, {packed}, px_w, {len(to)}, '
        f"{i.value(i.inside(i.operands[1]))}, {split}); {back}"
    )


@form("tcgen05.st")
def _st(i: Instruction) -> str:
    if "pack::16b" in i.parts:
        raise i.refuse()
    shape, times, packed = _access(i)
    i.done(3 if shape == "16x32bx2" else 2)
    words = i.values(i.operands[-1])
    split = i.value(i.operands[1]) if shape == "16x32bx2" else "0"
    return (
        f"const unsigned px_w[] = {{{', '.join(f'px_word({word})' for word in words)}}}; "
        f'px_tmem_store("{shape}", {times}, {packed}, px_w, {len(words)}, {i.value(i.inside(i.operands[0]))}, {split});'
    )


@form("tcgen05.wait::ld", "tcgen05.wait::st")
def _wait(i: Instruction) -> str:
    _whole_warp(i)
    i.done(0)
    return f"px_tmem_wait({str('wait::st' in i.ptx).lower()});"


@form("tcgen05.cp")
def _cp(i: Instruction) -> str:
    group = _group(i)
    multicast = i.take("warpx2::02_13", "warpx2::01_23", "warpx4").removeprefix("warp")
    source = {"b6x16_p32": 6, "b4x16_p64": 4}.get(i.take("b6x16_p32", "b4x16_p64"), 0) if i.take("b8x16") else 0
    if len(i.parts) != 1:
        raise i.refuse()
    shape = i.parts.pop()
    i.done(2)
    address = i.value(i.inside(i.operands[0]))
    return f'px_tmem_copy("{shape}", "{multicast}", {source}, {address}, {i.value(i.operands[1])}, {group});'


@form("tcgen05.commit")
def _commit(i: Instruction) -> str:
    group = _group(i)
    if not i.take("mbarrier::arrive::one") or not i.take("b64"):
        raise i.refuse()
    i.take("shared::cluster")
    multicast = bool(i.take("multicast::cluster"))
    i.done(1 + multicast)
    mask = i.value(i.operands[1]) if multicast else "0"
    return f"px_tensor_commit({i.address(i.operands[0])}, {group}, {str(multicast).lower()}, (unsigned){mask});"


def _block(i: Instruction, kind: str) -> str:
    """How many elements share a scale: 0 if the kind alone says it."""
    if name := i.take(*_BLOCKS):
        return str(_BLOCKS[name])
    if name := i.take(*_VECTORS):
        return str((32 if kind == "mxf8f6f4" else 64) // _VECTORS[name])
    return "0"


@form("tcgen05.mma")
def _mma(i: Instruction) -> str:
    group = _group(i)
    kind = i.take(*(f"kind::{kind}" for kind in _KINDS)).removeprefix("kind::")
    if not kind:
        raise i.refuse()
    scaled = bool(i.take("block_scale"))
    block = _block(i, kind) if scaled else "0"
    i.take(*(f"collector::a::{use}" for use in ("fill", "use", "lastuse", "discard")))
    i.done(5, 7)
    d, a, b, word, *rest = i.operands
    fields = [f'px_m.kind = "{kind}";', f"px_m.group = {group};"]
    fields += [f"px_m.d = {i.value(i.inside(d))};", f"px_m.b = {i.value(b)};"]
    if in_memory := a.startswith("["):
        fields.append("px_m.a_in_tensor_memory = true;")
    fields += [f"px_m.a = {i.value(i.inside(a) if in_memory else a)};", f"px_m.word = {i.value(word)};"]
    if scaled:
        if len(rest) != 3:
            raise i.refuse()
        fields += ["px_m.scaled = true;", f"px_m.block = {block};"]
        fields += [f"px_m.scale_{which} = {i.value(i.inside(rest.pop(0)))};" for which in "ab"]
    if rest[0].startswith("{"):
        words = i.values(rest.pop(0))
        if len(words) > 8 or not rest:
            raise i.refuse()
        fields += [f"px_m.masks = {len(words)};", *(f"px_m.mask[{n}] = {value};" for n, value in enumerate(words))]
    fields.append(f"px_m.accumulate = (bool){i.value(rest.pop(0))};")
    if rest:
        fields.append(f"px_m.shift = {i.value(rest.pop(0))};")
    if rest:
        raise i.refuse()
    return f"px_mma px_m = {{}}; {' '.join(fields)} px_tensor_mma(px_m);"
