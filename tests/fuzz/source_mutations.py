"""Changes to the text of a kernel: expressions, constants, operators, arguments, statements, names and tokens."""

from __future__ import annotations

import ast
import copy
import io
import random
import tokenize
from collections.abc import Callable

STRANGE = """
None; 'str'; ''; 1.5; -1; 0; 1; 3; True; False; 2**31; 2**31 - 1; -2**31; 2**40; 2**63; 2**64; 1 << 100; 10**400; 1e300; -0.0
float('nan'); float('inf'); px; px.f32; px.bf16; px.f8e4m3; px.i64; px.u8; px.bool; px.load; px.tma; px.cluster; px.zeros
(); (1, 2); (1,) * 70; (2**40,); [1]; {}; {1}; ...; b''; lambda: 1; undefined; print; len; range; range(3); range(0)
px.zeros((4,)); px.zeros((16, 16)); px.zeros((2**20,)); px.arange(4); px.arange(16) // 0; px.full((4,), 1, px.i32)
px.barrier(); px.barrier(2**40); px.shared((4, 4), px.f32); px.shared((2**40,), px.f32); px.ring(2); px.ring(2**40)
px.pipe(2)
px.warps(0, 1); px.static_range(2); px.static_range(10**9); px.unroll(range(4), 2); px.block_id(0); px.num_blocks(0)
px.cluster.rank(); px.cluster.size(); px.bool(1); px.i64(5); px.f16(1e10); px.sum(px.zeros((4, 4))); px.kernel; px.check
not None; 7 // 0; 7 % 0; 1 << -1; -(-1); ~1; 1 < 2 < 3; 'a' + 'b'; f'{1}'; 1 if True else 2; int('9'); abs(-3); max(1, 2)
"""
EXPRESSIONS = [ast.parse(part.strip(), mode="eval").body for part in STRANGE.strip().replace("\n", ";").split(";")]
NUMBERS: list[int | float | bool] = [
    0, 1, 2, 3, 4, 7, 8, 16, 31, 33, 64, 100, 128, 255, 256, 1000, 4096, 65536, 10**6, 2**31 - 1, 2**31, 2**40, 2**63, 2**70,
    -1, -2, -8, -(2**31), 0.5, -1.5, 1e30, True, False,
]  # fmt: skip
OPERATORS = [
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.BitOr, ast.BitAnd,
    ast.BitXor, ast.MatMult,
]
COMPARISONS = [ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.In, ast.NotIn]
TOKENS = [
    "0", "1", "-1", "2**40", "1.5", "(", ")", "[", "]", ",", ":", "+", "-", "*", "//", "%", "==", "=", "not", "in", "if",
    "None", "px", ".", "T", "to", "shape", "x", "*x", "**x", "lambda: 0", "await x", "yield", "else", "break", "continue",
    "return", "pass",
]
WRAPPERS = [
    "if px.block_id(0) == 0:\n    pass", "if True:\n    pass", "for _ in range(2):\n    pass", "while True:\n    pass",
    "for _ in px.static_range(2):\n    pass", "with px.warps(0, 1):\n    pass", "while px.block_id(0) < 1:\n    pass",
    "for _ in range(0, 4, px.block_id(0)):\n    pass", "for _ in (1, 2):\n    pass",
    "for _ in px.unroll(range(5), 2):\n    pass",
]
STATEMENTS = [
    "return", "break", "continue", "pass", "px.sync()", "px.cluster.sync()", "px.tma.commit()", "px.tma.wait(0)", "return 1",
    "raise ValueError", "import os", "global g", "del x", "x = y = 1", "x: int = 1", "x += 1", "(a, b) = (1, 2)",
    "assert False",
    "px.wgmma_commit()", "px.wgmma_wait(0)", "px.fence.async_proxy()", "px.fence.cluster()", "px.fence.barrier_init()",
    "px.print('x', 1)", "px.device_assert(px.block_id(0) >= 0)", "def inner():\n    pass", "class C:\n    pass",
    "try:\n    pass\nfinally:\n    pass", "with px.barrier().transaction():\n    pass", "px.wait_prior()",
    "px.launch_dependents()",
    "match 1:\n    case 1:\n        pass", "nonlocal_ = lambda: 0", "b = px.barrier(count=1)\nb.wait(0)",
    "b = px.barrier()\nb.arrive()",
]


def mutated(text: str, kernel: str, rng: random.Random) -> str:
    """The text of a file with one to three changes to a kernel, or to a function or struct beside it."""
    changes = rng.choice([1, 1, 1, 2, 2, 3])
    for _ in range(changes):
        text = tokens_changed(text, kernel, rng) if rng.random() < 0.2 else tree_changed(text, kernel, rng)
    return text


def tree_changed(text: str, kernel: str, rng: random.Random) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text  # a change before this one: Python refuses it
    target = chosen(tree, kernel, rng)
    if target is None:
        return text
    for _ in range(8):  # not every change finds its place
        trial = copy.deepcopy(tree)
        place = next(n for n, b in zip(ast.walk(trial), ast.walk(tree), strict=True) if b is target)
        if rng.choice(CHANGES)(place, rng):
            return ast.unparse(ast.fix_missing_locations(trial)) + "\n"
    return text


def chosen(tree: ast.Module, kernel: str, rng: random.Random) -> ast.AST | None:
    """The kernel most of the time, else another function or struct of the language."""
    named = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == kernel]
    others = [
        node for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name != kernel
        and any("func" in ast.unparse(d) or "struct" in ast.unparse(d) for d in node.decorator_list)
    ]
    pool = [*named * 3, *others[:3]] if named else others
    return rng.choice(pool) if pool else None


def places(root: ast.AST) -> list[tuple[ast.AST, str, int | None]]:
    """Where an expression stands that is read, not assigned: its parent, the field, the position in it."""
    found: list[tuple[ast.AST, str, int | None]] = []
    for parent in ast.walk(root):
        if isinstance(parent, ast.JoinedStr):
            continue  # only its values may change, and they are found below it
        for name, value in ast.iter_fields(parent):
            if name in ("decorator_list", "annotation", "returns"):
                continue
            for position, item in list(enumerate(value)) if isinstance(value, list) else [(None, value)]:
                if isinstance(item, ast.expr) and not isinstance(getattr(item, "ctx", None), ast.Store):
                    found.append((parent, name, position))
    return found


def put(place: tuple[ast.AST, str, int | None], node: ast.AST) -> None:
    parent, name, position = place
    if position is None:
        setattr(parent, name, node)
    else:
        getattr(parent, name)[position] = node


def at(place: tuple[ast.AST, str, int | None]) -> ast.AST:
    parent, name, position = place
    return getattr(parent, name) if position is None else getattr(parent, name)[position]


def all_of(root: ast.AST, *kinds: type) -> list:
    return [node for node in ast.walk(root) if isinstance(node, kinds)]


def blocks(root: ast.AST) -> list[list[ast.stmt]]:
    found = []
    for node in ast.walk(root):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                found.append(block)
    return found


def statements(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


# Each change returns whether it found something to change.


def strange_expression(root: ast.AST, rng: random.Random) -> bool:
    put(rng.choice(places(root)), copy.deepcopy(rng.choice(EXPRESSIONS)))
    return True


def expression_from_elsewhere(root: ast.AST, rng: random.Random) -> bool:
    found = places(root)
    put(rng.choice(found), copy.deepcopy(at(rng.choice(found))))
    return True


def number(root: ast.AST, rng: random.Random) -> bool:
    numbers = [n for n in all_of(root, ast.Constant) if isinstance(n.value, int | float)]
    if not numbers:
        return False
    node = rng.choice(numbers)
    near = [node.value + 1, node.value - 1, node.value * 2, -node.value, node.value // 2] if node.value is not None else []
    node.value = rng.choice([*NUMBERS, *near])
    return True


def operator(root: ast.AST, rng: random.Random) -> bool:
    nodes = all_of(root, ast.BinOp, ast.AugAssign, ast.Compare)
    if not nodes:
        return False
    node = rng.choice(nodes)
    if isinstance(node, ast.Compare):
        node.ops[rng.randrange(len(node.ops))] = rng.choice(COMPARISONS)()
    else:
        node.op = rng.choice(OPERATORS)()
    return True


def operands_swapped(root: ast.AST, rng: random.Random) -> bool:
    nodes = all_of(root, ast.BinOp)
    if not nodes:
        return False
    node = rng.choice(nodes)
    node.left, node.right = node.right, node.left
    return True


def unary(root: ast.AST, rng: random.Random) -> bool:
    place = rng.choice(places(root))
    old = at(place)
    if isinstance(old, ast.Slice | ast.Starred):
        return False
    put(place, ast.UnaryOp(rng.choice([ast.USub, ast.Not, ast.Invert, ast.UAdd])(), old))
    return True


def argument(root: ast.AST, rng: random.Random) -> bool:
    """Removed, doubled, swapped, named, unpacked."""
    calls = [call for call in all_of(root, ast.Call) if call.args or call.keywords]
    if not calls:
        return False
    call = rng.choice(calls)
    how = rng.randrange(7)
    if how == 0 and call.args:
        del call.args[rng.randrange(len(call.args))]
    elif how == 1 and call.args:
        call.args.insert(rng.randrange(len(call.args) + 1), copy.deepcopy(rng.choice(call.args)))
    elif how == 2 and len(call.args) > 1:
        rng.shuffle(call.args)
    elif how == 3 and call.keywords:
        del call.keywords[rng.randrange(len(call.keywords))]
    elif how == 4 and call.keywords:
        call.keywords[rng.randrange(len(call.keywords))].arg = rng.choice(["count", "cta", "mask", "ctas", "nothing", None])
    elif how == 5 and call.args:
        call.keywords.append(ast.keyword(rng.choice(["count", "axis", "cache", "fill", "cta"]), call.args.pop()))
    elif how == 6 and call.args:
        call.args[-1] = ast.Starred(call.args[-1], ast.Load())
    else:
        return False
    return True


def name(root: ast.AST, rng: random.Random) -> bool:
    names = all_of(root, ast.Name)
    if not names:
        return False
    rng.choice(names).id = rng.choice(names).id
    return True


def attribute(root: ast.AST, rng: random.Random) -> bool:
    nodes = all_of(root, ast.Attribute)
    if not nodes:
        return False
    known = [node.attr for node in nodes]
    more = ["T", "shape", "dtype", "to", "at", "tile", "reshape", "wait", "arrive", "load", "store", "stage", "nothing"]
    rng.choice(nodes).attr = rng.choice([*known, *more])
    return True


def subscript(root: ast.AST, rng: random.Random) -> bool:
    nodes = all_of(root, ast.Subscript)
    if not nodes:
        return False
    node = rng.choice(nodes)
    how = rng.randrange(4)
    if how == 0:
        node.slice = copy.deepcopy(rng.choice(EXPRESSIONS))
    elif how == 1 and isinstance(node.slice, ast.Tuple) and node.slice.elts:
        del node.slice.elts[rng.randrange(len(node.slice.elts))]
    elif how == 2:
        old = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        node.slice = ast.Tuple([*old, copy.deepcopy(rng.choice(old))] if old else [], ast.Load())
    else:
        node.slice = ast.Slice(*(rng.choice([None, ast.Constant(number)]) for number in (0, 16, 2)))
    return True


def statement(root: ast.AST, rng: random.Random) -> bool:
    """Deleted, doubled, moved, swapped."""
    found = blocks(root)
    block = rng.choice(found)
    where = rng.randrange(len(block))
    how = rng.randrange(4)
    if how == 0 and len(block) > 1:
        del block[where]
    elif how == 1:
        block.insert(where, copy.deepcopy(block[where]))
    elif how == 2 and len(block) > 1:
        moved = block.pop(where)
        other = rng.choice(found)
        other.insert(rng.randrange(len(other) + 1), moved)
    elif how == 3 and len(block) > 1:
        other_place = rng.randrange(len(block))
        block[where], block[other_place] = block[other_place], block[where]
    else:
        return False
    return True


def new_statement(root: ast.AST, rng: random.Random) -> bool:
    block = rng.choice(blocks(root))
    where = rng.randrange(len(block) + 1)
    block[where:where] = statements(rng.choice(STATEMENTS))
    return True


def wrapped(root: ast.AST, rng: random.Random) -> bool:
    """A statement, or the rest of its block, inside another."""
    block = rng.choice(blocks(root))
    where = rng.randrange(len(block))
    (outer,) = statements(rng.choice(WRAPPERS))
    stop = where + 1 if rng.random() < 0.7 else len(block)
    outer.body = block[where:stop]  # type: ignore[attr-defined]
    block[where:stop] = [outer]
    return True


def unwrapped(root: ast.AST, rng: random.Random) -> bool:
    """The body of a statement in its place."""
    found = [(b, i) for b in blocks(root) for i, s in enumerate(b) if isinstance(s, ast.If | ast.For | ast.While | ast.With)]
    if not found:
        return False
    block, where = rng.choice(found)
    block[where : where + 1] = block[where].body  # type: ignore[attr-defined]
    return True


def launch_shape(root: ast.AST, rng: random.Random) -> bool:
    """Another number in `@px.kernel(...)`, or another default of a constant."""
    if not isinstance(root, ast.FunctionDef):
        return False
    calls = [d for d in root.decorator_list if isinstance(d, ast.Call)]
    if calls and rng.random() < 0.6:
        value = ast.Constant(rng.choice([0, 1, 2, 3, 4, 8, 16, 32, 33, -1, 1.5, None, True]))
        key = rng.choice(["warps", "cluster", "ctas_per_sm", "exit_sync", "pdl"])
        calls[0].keywords = [k for k in calls[0].keywords if k.arg != key] + [ast.keyword(key, value)]
        return True
    defaults = [i for i, d in enumerate(root.args.kw_defaults) if d is not None]
    if not defaults:
        return False
    root.args.kw_defaults[rng.choice(defaults)] = copy.deepcopy(rng.choice(EXPRESSIONS[:21]))
    return True


CHANGES: list[Callable[[ast.AST, random.Random], bool]] = [
    strange_expression, strange_expression, strange_expression, expression_from_elsewhere, expression_from_elsewhere, number,
    number, operator, operands_swapped, unary, argument, argument, argument, name, name, attribute, attribute, subscript,
    statement, statement, statement, new_statement, new_statement, wrapped, unwrapped, launch_shape,
]  # fmt: skip


def tokens_changed(text: str, kernel: str, rng: random.Random) -> str:
    """One token of the kernel removed, doubled, replaced, or swapped with its neighbour."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return text
    target = chosen(tree, kernel, rng)
    if target is None:
        return text
    lines = text.splitlines(keepends=True)
    first, last = target.body[0].lineno - 1, target.end_lineno  # type: ignore[attr-defined]
    part = "".join(lines[first:last])
    try:
        found = list(tokenize.generate_tokens(io.StringIO(part).readline))
    except (tokenize.TokenError, IndentationError):
        return text
    plain = [t for t in found if t.type in (tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING)]
    if len(plain) < 2:
        return text
    index = rng.randrange(len(plain) - 1)
    token, following = plain[index], plain[index + 1]
    how = rng.randrange(4)
    new = {
        0: "", 1: f"{token.string} {token.string}", 2: rng.choice([*TOKENS, rng.choice(plain).string]),
        3: f"{following.string} {token.string}",
    }[how]
    rows = part.splitlines(keepends=True)
    row, column = token.start
    end_row, end_column = following.end if how == 3 and following.start[0] == row else token.end
    if end_row != row:
        return text
    line = rows[row - 1]
    rows[row - 1] = line[:column] + new + line[end_column:]
    return "".join([*lines[:first], *rows, *lines[last:]])
