"""Control flow, roles, thread barriers, the grid, printing and assertions as C++.

Structured exits are `break` and `continue` where the innermost loop is meant, else `goto` a label behind a closed
scope, so that no jump passes a declaration.
"""

from __future__ import annotations

from phalanx.cuda.text.by_rank import rank_of_cta
from phalanx.cuda.text.literals import atom, bare, plus
from phalanx.cuda.text.prelude import instruction
from phalanx.cuda.text.registry import emit_block, emits, never_emits
from phalanx.cuda.text.stamps import begin_agent, end_agent, stamp_step
from phalanx.cuda.text.writer import Writer, scalar_dtype
from phalanx.cuda.text.written_agent import WrittenAgent
from phalanx.cuda.tiles.control_text import counted_axes, for_header, printf_format
from phalanx.cuda.tiles.elements import for_each_owned
from phalanx.cuda.tiles.index import slot_line
from phalanx.ir.archs import entry_registers
from phalanx.ir.core import Block
from phalanx.ir.effects import Span
from phalanx.ir.ops import control as ir
from phalanx.ir.ops.tile import Empty
from phalanx.ir.types import TileType
from phalanx.ir.values import Label, Value


@emits(ir.Assign)
def emit_assign(w: Writer, op: ir.Assign) -> None:
    """Writes an assignment to the variable of a cell; the first one declares it where that is possible."""
    if op not in w.cells.declaring:
        if not isinstance(w.definitions.get(op.value), Empty):
            _assign(w, op)
    elif isinstance(op.var.type, TileType):
        w.declare_tile(op.var)
        if not isinstance(w.definitions.get(op.value), Empty):
            _assign(w, op)
    else:
        w.line(f"{w.ctype(scalar_dtype(op.var))} {w.name(op.var)} = {bare(w.name(op.value))};")


def _assign(w: Writer, op: ir.Assign) -> None:
    if op.var in w.cells.words:
        w.line(f"{w.use('pack_words')}<{w.registers(op.var)}>({w.name(op.var)}, {w.name(op.value)});")
    else:
        _copy(w, w.name(op.var), op.value)


@emits(ir.ReadVar)
def emit_read(w: Writer, op: ir.ReadVar) -> None:
    """Writes a copy of the cell's variable, or its name where the cell does not change before the last use."""
    if op.result in w.cells.aliases:
        return  # the value is used up before the cell changes: the cell's own name will do
    if op.var in w.cells.words:
        if w.uses(op.result):
            name = w.declare_tile(op.result)
            w.line(f"{w.use('unpack_words')}<{w.registers(op.var)}>({name}, {w.name(op.var)});")
    elif isinstance(op.result.type, TileType):
        _copy(w, w.declare_tile(op.result), op.var)
    else:
        w.define(op.result, w.name(op.var))


def _copy(w: Writer, target: str, source: Value) -> None:
    name = w.name(source)
    if name == target:
        return
    if isinstance(source.type, TileType):
        slot_line(w, w.registers(source), f"{target}[px_r] = {name}[px_r];", "px_r")
    else:
        w.line(f"{target} = {bare(name)};")


@emits(ir.If)
def emit_if(w: Writer, op: ir.If) -> None:
    """Writes an `if`; an `else` with a lone `if` inside becomes an `else if`."""
    w.line(f"if ({bare(w.name(op.cond))}) {{")
    with w.indent(), w.scope():
        emit_block(w, op.then)
    orelse = op.orelse
    while len(orelse.ops) == 1 and isinstance(orelse.ops[0], ir.If):  # elif
        inner = orelse.ops[0]
        w.line(f"}} else if ({bare(w.name(inner.cond))}) {{")
        with w.indent(), w.scope():
            w.comment_source(inner.loc)
            emit_block(w, inner.then)
        orelse = inner.orelse
    if orelse.ops:
        w.line("} else {")
        with w.indent(), w.scope():
            emit_block(w, orelse)
    w.line("}")


@emits(ir.For)
def emit_for(w: Writer, op: ir.For) -> None:
    """Writes a `for`; a loop that waits for something is not unrolled."""
    with w.scope():
        header = for_header(w, op)
        if op.unroll:
            w.line(f"#pragma unroll {op.unroll}")
        elif blocks_somewhere(op.body):
            w.line("#pragma unroll 1")  # a pipeline's loop: copies of its body only cost instruction cache
        with w.block(header):
            stamp_step(w, op.body, op.loc)
            _loop_body(w, op.body, op.label)
    _landing(w, ("break", op.label))


@emits(ir.While)
def emit_while(w: Writer, op: ir.While) -> None:
    """Writes a `while` with its test in the header where that is one expression, else with a `break`."""
    header = w.position
    with w.block("while (true)"):
        emit_block(w, op.test)
        if w.only_comments_since(header + 1):  # the whole test is one expression
            w.rewrite_line(header, f"while ({bare(w.name(op.cond))}) {{")
        else:
            w.line(f"if (!{atom(w.name(op.cond))}) break;")
        stamp_step(w, op.body, op.loc)
        _loop_body(w, op.body, op.label)
    _landing(w, ("break", op.label))


def _loop_body(w: Writer, body: Block, label: Label) -> None:
    w.loops.append(label)
    if _leaves_inner_loop(body, label):
        with w.block():  # closed, so that the jump to its end passes no declaration
            emit_block(w, body)
        _landing(w, ("continue", label))
    else:
        emit_block(w, body)
    w.loops.pop()


def _leaves_inner_loop(body: Block, label: Label) -> bool:
    """Whether a loop inside `body` continues the loop of that label."""
    return any(
        isinstance(inner, ir.Continue) and inner.label is label
        for op in body.walk()
        if isinstance(op, ir.For | ir.While)
        for inner in op.body.walk()
    )


def blocks_somewhere(body: Block) -> bool:
    """Whether something in `body` waits: for a barrier, for other threads, for copies."""
    effects = [op.effects() for op in body.walk()]
    return any(e.waits or e.rendezvous or e.groups for e in effects)


@emits(ir.Break)
def emit_break(w: Writer, op: ir.Break) -> None:
    """Writes a `break`, or a jump where it leaves more than the innermost loop."""
    if w.loops and w.loops[-1] is op.label:
        w.line("break;")
    else:
        w.line(f"goto {w.label_name('break', op.label)};")


@emits(ir.Continue)
def emit_continue(w: Writer, op: ir.Continue) -> None:
    """Writes a `continue`, or a jump where it continues more than the innermost loop."""
    if w.loops and w.loops[-1] is op.label:
        w.line("continue;")
    else:
        w.line(f"goto {w.label_name('continue', op.label)};")


@emits(ir.Scope)
def emit_scope(w: Writer, op: ir.Scope) -> None:
    """Writes the block, with a label behind it if something leaves it early."""
    if not any(isinstance(inner, ir.Leave) and inner.label is op.label for inner in op.body.walk()):
        emit_block(w, op.body)
        return
    with w.block():
        emit_block(w, op.body)
    _landing(w, ("leave", op.label))


@emits(ir.Leave)
def emit_leave(w: Writer, op: ir.Leave) -> None:
    """Writes a jump behind the scope."""
    w.line(f"goto {w.label_name('leave', op.label)};")


def _landing(w: Writer, target: tuple[str, Label]) -> None:
    """The label behind a scope, if anything jumped there."""
    if target in w.labels:
        w.line(f"{w.labels[target]}:;")


@emits(ir.Roles)
def emit_roles(w: Writer, op: ir.Roles) -> None:
    """Writes a chain of `if`s on the number of the warp, one arm per role, and the join behind them."""
    outer = w.agent
    barrier = 1
    for position, region in enumerate(op.regions):
        spans_cta = (region.first, region.count) == (0, w.plan.function.warps)
        named = region.running > 1 and not spans_cta
        agent = WrittenAgent(
            region.name or _title(region), region.first, region.running, barrier if named else 0, region.copies, region.count
        )
        barrier += named * region.copies
        w.line(f"{'} else ' if position else ''}if ({_range(w, region)}) {{  // {_title(region)}")
        with w.indent(), w.as_agent(agent):
            _reallocate(w, region)
            loops, w.loops = w.loops, []
            running = _running(w, region)
            if not running:
                _role_body(w, region)
            else:  # the other warps have nothing to do
                with w.block(f"if ({running})"):
                    _role_body(w, region)
            w.loops = loops
    w.line("}")
    if op.joins:
        assert outer.warps == w.plan.function.warps
        w.sync_agent("the roles join")


def _role_body(w: Writer, role: ir.Role) -> None:
    begin_agent(w, role.loc)
    emit_block(w, role.body)
    end_agent(w, role.loc)


def _range(w: Writer, role: ir.Role) -> str:
    if role.held == w.plan.function.warps:
        return "true"
    if role.held == 1:
        return f"{w.warp_id} == {role.first}"
    end = f"{w.warp_id} < {role.first + role.held}"
    if role.first == 0:
        return end
    start = f"{w.warp_id} >= {role.first}"
    return start if role.first + role.held == w.plan.function.warps else f"{start} && {end}"


def _running(w: Writer, role: ir.Role) -> str:
    """The condition on a warp that comes here to run the body; empty where all of them run it."""
    if role.active is None and role.held == role.span:
        return ""
    if role.copies > 1:
        conditions = [f"{w.warp} < {role.active}"] if role.active is not None else []
        if role.held > role.span:
            conditions.insert(0, f"{w.warp_id} < {role.first + role.span}")
        return " && ".join(conditions)
    return f"{w.warp_id} == {role.first}" if role.running == 1 else f"{w.warp_id} < {role.first + role.running}"


def _title(role: ir.Role) -> str:
    last = role.first + role.span - 1
    warps = f"warp {role.first}" if role.span == 1 else f"warps {role.first} to {last}"
    warps += f", {role.copies} copies" if role.copies > 1 else ""
    return warps if not role.name or role.name.startswith("warp") else f"{role.name}: {warps}"


def _reallocate(w: Writer, role: ir.Role) -> None:
    entry = entry_registers(w.plan.function.warps, w.plan.function.ctas_per_sm)
    if role.regs is None or role.regs == entry:
        return
    action = "dec" if role.regs < entry else "inc"
    w.line(f"{w.use(f'setmaxnreg_{action}')}<{role.regs}>();")


@emits(ir.Role)
def emit_role(w: Writer, op: ir.Role) -> None:
    """Writes a role by itself, as a group of one."""
    emit_roles(w, ir.Roles((op,), loc=op.loc))


@emits(ir.RoleCopy)
def emit_role_copy(w: Writer, op: ir.RoleCopy) -> None:
    """Writes the number of the copy: the same in all threads of a warp."""
    if w.uses(op.result):
        w.define(op.result, w.copy, pure=True)


@emits(ir.WaitPrior)
def emit_wait_prior(w: Writer, op: ir.WaitPrior) -> None:
    """Writes `griddepcontrol.wait`."""
    w.line(f"{w.use(instruction('griddepcontrol.wait'))}();")


@emits(ir.LaunchDependents)
def emit_launch_dependents(w: Writer, op: ir.LaunchDependents) -> None:
    """Writes `griddepcontrol.launch_dependents`."""
    w.line(f"{w.use(instruction('griddepcontrol.launch_dependents'))}();")


@emits(ir.Sync)
def emit_sync(w: Writer, op: ir.Sync) -> None:
    """Writes a barrier of the agent's threads: of a warp, a named one of a role, or of the CTA."""
    assert op.effects().rendezvous[0].span is Span.AGENT
    w.sync_agent(op.reason)


@emits(ir.BlockId, expression=True)
def emit_block_id(w: Writer, op: ir.BlockId) -> None:
    """Writes `blockIdx`."""
    w.define(op.result, f"(int)blockIdx.{'xyz'[op.dim]}", pure=True)


@counted_axes(ir.NumBlocks)
def counted_axis(op: ir.NumBlocks) -> int:
    """The axis whose CTAs it counts."""
    return op.dim


@emits(ir.NumBlocks, expression=True)
def emit_num_blocks(w: Writer, op: ir.NumBlocks) -> None:
    """Writes `gridDim`."""
    w.define(op.result, f"(int)gridDim.{'xyz'[op.dim]}", pure=True)


@emits(ir.Print)
def emit_print(w: Writer, op: ir.Print) -> None:
    """Scalars and text: one line by the elected thread. Tiles: a line per element, by the threads that own them."""
    scalars = tuple(part for part in op.parts if isinstance(part, str) or not isinstance(part.type, TileType))
    who, place = _who_prints(w)
    if scalars or not op.parts:
        with w.elected():
            form, arguments = printf_format(w, scalars)
            w.line(f"printf({', '.join([f'{who[:-1]} {form[1:]}', *place, *arguments])});")
    for part in op.parts:
        if isinstance(part, Value) and isinstance(part.type, TileType):
            _print_tile(w, part, who, place)


def _print_tile(w: Writer, tile: Value, who: str, place: list[str]) -> None:
    def emit(index: tuple[str, ...], element: str) -> None:
        form, arguments = printf_format(w, ((tile, element),))
        places = ", ".join("%d" for _ in index)
        w.line(f'printf({who} " {tile.name or "tile"}[{places}] = " {", ".join([form, *place, *index, *arguments])});')

    for_each_owned(w, tile, emit)


def _who_prints(w: Writer) -> tuple[str, list[str]]:
    """The beginning of a printed line, as a format and its arguments: the CTA's place, its rank in a cluster, the role."""
    agent, clusters = w.agent, w.plan.function.cluster_size > 1
    place = [f"(int)blockIdx.{axis}" for axis in "xyz"] + ([rank_of_cta(w)] if clusters else [])
    role = agent.name or "all warps"
    if agent.copies > 1:
        first = plus(w.copy if agent.pitch == 1 else f"{w.copy} * {agent.pitch}", agent.first)
        role = "warp %d" if agent.pitch == 1 else "warps %d-%d"
        place += [first] if agent.pitch == 1 else [first, f"{first} + {agent.pitch - 1}"]
    return f'"block (%d, %d, %d), {"rank %d, " if clusters else ""}{role}:"', place


@emits(ir.Breakpoint)
def emit_breakpoint(w: Writer, op: ir.Breakpoint) -> None:
    """Writes nothing: a GPU does not stop."""


@emits(ir.Assume)
def emit_assume(w: Writer, op: ir.Assume) -> None:
    """Checked where the kernel is watched; elsewhere told to the compiler, of scalars: nothing is gained from elements."""
    if w.plan.extras.watchdog:
        emit_device_assert(w, op)
    elif not isinstance(op.cond.type, TileType):
        w.line(f"__builtin_assume({bare(w.name(op.cond))});")


@emits(ir.DeviceAssert)
def emit_device_assert(w: Writer, op: ir.Assume | ir.DeviceAssert) -> None:
    """Writes a test that stops the grid with a record in the debug buffer; of a tile, for every element by its owner."""
    site = w.site("assert", op.message, op.loc)
    stop = f"{w.use('px_stop')}({w.debug}, {site}, 0, 0);"
    if isinstance(op.cond.type, TileType):
        for_each_owned(w, op.cond, lambda index, element: w.line(f"if (!{element}) {stop}"))
    else:
        w.line(f"if (!{atom(w.name(op.cond))}) {stop}")


never_emits(ir.NextTile, "a pass writes out who draws the tile and how the others are told")
