"""PTX that is no product, as C++, for `host_ptx`: registers, mbarriers, clusters, TMA, cluster launch control.

Which memory an order or a scope is about makes no difference here; fences are counted and do nothing.
"""

from __future__ import annotations

import re

from support.host_ptx import Instruction, form

_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_CTYPES = {
    "u": {16: "unsigned short", 32: "unsigned", 64: "unsigned long long"},
    "s": {16: "short", 32: "int", 64: "long long"},
}


def _ctype(name: str, i: Instruction) -> str:
    match = re.fullmatch(r"([bus])(16|32|64)", name)
    if match is None:
        raise i.refuse()
    return _CTYPES["s" if match[1] == "s" else "u"][int(match[2])]


# ---------------------------------------------------------------------- registers


@form("mov")
def _mov(i: Instruction) -> str:
    if i.take("b128"):
        i.done(2)
        to, source = i.values(i.operands[0]), i.values(i.operands[1])
        if len(source) == 2:
            return f"{to[0]} = px_b128{{{', '.join(f'(unsigned long long){part}' for part in source)}}};"
        return f"{to[0]} = {source[0]}.low; {to[1]} = {source[0]}.high;"
    ctype = _ctype(i.parts.pop(), i) if i.parts else ""
    i.done(2)
    return f"{i.value(i.operands[0])} = ({ctype}){i.value(i.operands[1])};"


@form("setp")
def _setp(i: Instruction) -> str:
    name = i.take(*_COMPARE)
    if not name or not i.parts:
        raise i.refuse()
    ctype = _ctype(i.parts.pop(), i)
    i.done(3)
    p, a, b = map(i.value, i.operands)
    return f"{p} = ({ctype}){a} {_COMPARE[name]} ({ctype}){b};"


@form("selp")
def _selp(i: Instruction) -> str:
    ctype = _ctype(i.parts.pop(), i)
    i.done(4)
    to, yes, no, p = map(i.value, i.operands)
    return f"{to} = ({ctype})({p} ? {yes} : {no});"


@form("elect.sync")
def _elect(i: Instruction) -> str:
    i.done(2)
    return f"{i.value(i.operands[0].partition('|')[2])} = px_elect();"


@form("cvta.to.shared.u64")
def _cvta(i: Instruction) -> str:
    i.done(2)
    return f"{i.value(i.operands[0])} = px_address((const void*){i.value(i.operands[1])});"


@form("cvt.u32.u64")
def _cvt(i: Instruction) -> str:
    i.done(2)
    return f"{i.value(i.operands[0])} = (unsigned){i.value(i.operands[1])};"


# ---------------------------------------------------------------------- threads


@form("bar.sync", "barrier.sync", "barrier.cta.sync")
def _bar(i: Instruction) -> str:
    i.take("aligned")
    i.done(1, 2)
    count = i.value(i.operands[1]) if len(i.operands) == 2 else "px_threads()"
    return f"px_block(PX_CTA + {i.value(i.operands[0])}, {count});"


@form("bar.warp.sync")
def _bar_warp(i: Instruction) -> str:
    i.done(1)
    return "px_block(PX_WARP, 32);"


@form("barrier.cluster.arrive", "barrier.cluster.wait")
def _barrier_cluster(i: Instruction) -> str:
    waits = "wait" in i.ptx
    i.take("release", "relaxed", "acquire"), i.take("aligned")
    i.done(0)
    return "px_cluster_wait();" if waits else "px_cluster_arrive();"


@form("fence", "membar", "prefetch", "griddepcontrol", "setmaxnreg", "tcgen05.fence::before_thread_sync",
      "tcgen05.fence::after_thread_sync")  # fmt: skip
def _nothing(i: Instruction) -> str:
    return f'px_note("{i.ptx.split()[0]}");'


@form("nanosleep")
def _sleep(i: Instruction) -> str:
    return "px_yield();"


@form("trap")
def _trap(i: Instruction) -> str:
    return "__trap();"


@form("mapa.shared::cluster.u32")
def _mapa(i: Instruction) -> str:
    i.done(3)
    to, address, rank = map(i.value, i.operands)
    return f"{to} = px_mapped((unsigned){address}, (unsigned){rank});"


# ---------------------------------------------------------------------- mbarriers


def _barrier(i: Instruction) -> bool:
    """Takes the order, the scope and the space; whether the address may be in another CTA."""
    i.take("release", "acquire", "relaxed"), i.take("cta", "cluster")
    space = i.take("shared::cta", "shared::cluster", "shared")
    if i.parts != ["b64"]:
        raise i.refuse()
    i.parts.clear()
    return space == "shared::cluster"


def _bar_address(i: Instruction, text: str, anywhere: bool) -> str:
    return i.address(text) if anywhere else f"px_own({i.address(text)})"


@form("mbarrier.init")
def _init(i: Instruction) -> str:
    anywhere = _barrier(i)
    i.done(2)
    return f"px_barrier_init({_bar_address(i, i.operands[0], anywhere)}, {i.value(i.operands[1])});"


@form("mbarrier.inval")
def _inval(i: Instruction) -> str:
    anywhere = _barrier(i)
    i.done(1)
    return f"px_barrier_inval({_bar_address(i, i.operands[0], anywhere)});"


@form("mbarrier.arrive")
def _arrive(i: Instruction) -> str:
    expects = bool(i.take("expect_tx"))
    anywhere = _barrier(i)
    i.done(2 + expects, 3)
    if i.operands[0] != "_":
        raise i.refuse()
    bar = _bar_address(i, i.operands[1], anywhere)
    number = i.value(i.operands[2]) if len(i.operands) == 3 else "1"
    return f"px_expect({bar}, {number}); px_arrive({bar}, 1);" if expects else f"px_arrive({bar}, {number});"


@form("mbarrier.expect_tx", "mbarrier.complete_tx")
def _expect(i: Instruction) -> str:
    name = "px_expect" if "expect_tx" in i.ptx else "px_complete"
    anywhere = _barrier(i)
    i.done(2)
    return f"{name}({_bar_address(i, i.operands[0], anywhere)}, {i.value(i.operands[1])});"


@form("mbarrier.try_wait.parity", "mbarrier.test_wait.parity")
def _wait(i: Instruction) -> str:
    _barrier(i)
    i.done(3, 4)
    return f"{i.value(i.operands[0])} = px_try({i.address(i.operands[1])}, (unsigned){i.value(i.operands[2])});"


# ---------------------------------------------------------------------- TMA


def _map(i: Instruction, text: str) -> tuple[str, list[str]]:
    """A tensor map and its coordinates."""
    where, *coordinates = (part for part in re.split(r",\s*(?=\{)", i.inside(text), maxsplit=1))
    if len(coordinates) != 1:
        raise i.refuse()
    return f"(const void*){i.value(where)}", i.values(coordinates[0])


def _coordinates(values: list[str], rank: int, rows: bool, i: Instruction) -> str:
    if len(values) != (5 if rows else rank):
        raise i.refuse()
    text = ", ".join(f"(int){value}" for value in values)
    named = f"const int px_rows[] = {{{', '.join(f'(int){value}' for value in values[1:])}}};" if rows else ""
    return f"const int px_corner[] = {{{text}}}; {named}"


@form("cp.async.bulk.tensor")
def _tensor(i: Instruction) -> str:
    rank = int(i.take("1d", "2d", "3d", "4d", "5d")[:1] or "0")
    spaces = [part for part in i.parts if part in ("global", "shared::cta", "shared::cluster")]
    i.parts = [part for part in i.parts if part not in spaces]
    rows = i.take("tile", "tile::gather4", "tile::scatter4") in ("tile::gather4", "tile::scatter4")
    hint = bool(i.take("L2::cache_hint"))
    if rank == 0 or len(spaces) != 2:
        raise i.refuse()
    if spaces[0] == "global":
        i.take("bulk_group")
        i.done(2 + hint)
        where, values = _map(i, i.operands[0])
        at = _coordinates(values, rank, rows, i)
        return f'{at} px_tensor_out({where}, px_corner, {"px_rows" if rows else "0"}, {i.address(i.operands[1])}, "");'
    if not i.take("mbarrier::complete_tx::bytes"):
        raise i.refuse()
    multicast, group = bool(i.take("multicast::cluster")), i.take_value("cta_group::") or "0"
    i.done(3 + multicast + hint)
    where, values = _map(i, i.operands[1])
    mask = i.value(i.operands[3]) if multicast else "0"
    return (
        f"{_coordinates(values, rank, rows, i)} px_tensor_load({i.address(i.operands[0])}, {where}, px_corner, "
        f"{'px_rows' if rows else '0'}, {i.address(i.operands[2])}, {str(multicast).lower()}, (unsigned){mask}, {group});"
    )


@form("cp.async.bulk.commit_group")
def _commit_group(i: Instruction) -> str:
    i.done(0)
    return ""


@form("cp.async.bulk.wait_group")
def _wait_group(i: Instruction) -> str:
    i.take("read")
    i.done(1)
    return "px_land_all();"


# ---------------------------------------------------------------------- cluster launch control


@form("ld.shared::cta", "ld.shared", "ld.volatile.shared::cta", "ld.volatile.shared")
def _load(i: Instruction) -> str:
    if i.take("b128"):
        i.done(2)
        return f"{i.value(i.operands[0])} = px_load_b128({i.address(i.operands[1])});"
    count = int((i.take("v2", "v4") or "v1")[1:])
    ctype = _ctype(i.parts.pop(), i) if i.parts else ""
    i.done(2)
    parts = i.values(i.operands[0])
    if len(parts) != count:
        raise i.refuse()
    back = " ".join(f"{part} = px_w[{n}];" for n, part in enumerate(parts))
    size = f"sizeof({ctype}) * {count}"
    return f"{ctype} px_w[{count}]; memcpy(px_w, px_place({i.address(i.operands[1])}, {size}), {size}); {back}"


@form("clusterlaunchcontrol.try_cancel.async")
def _try_cancel(i: Instruction) -> str:
    i.take("shared::cta")
    if not i.take("mbarrier::complete_tx::bytes") or not i.take("b128"):
        raise i.refuse()
    everywhere = bool(i.take("multicast::cluster::all"))
    i.done(2)
    return f"px_try_cancel({i.address(i.operands[0])}, {i.address(i.operands[1])}, {str(everywhere).lower()});"


@form("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128")
def _is_canceled(i: Instruction) -> str:
    i.done(2)
    return f"{i.value(i.operands[0])} = px_is_canceled({i.value(i.operands[1])});"


@form(*(f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{axis}.b32.b128" for axis in "xyz"))
def _first_cta(i: Instruction) -> str:
    axis = "xyz".index(i.ptx.partition("get_first_ctaid::")[2][0])
    i.done(2)
    return f"{i.value(i.operands[0])} = px_first_cta({i.value(i.operands[1])}, {axis});"


@form("clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128")
def _first_ctas(i: Instruction) -> str:
    i.done(2)
    response, parts = i.value(i.operands[1]), [part.strip() for part in i.operands[0].strip()[1:-1].split(",")]
    values = [*(f"px_first_cta({response}, {n})" for n in range(3)), "0"]
    return " ".join(f"{i.value(part)} = {value};" for part, value in zip(parts, values, strict=True) if part != "_")
