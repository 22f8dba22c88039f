"""Forms of programs around products whose left operand is made in registers: where they are begun and waited for.

A form writes the body of a kernel: accumulators, loops with products in flight, and stores of what they have summed up. The
operand of a step is made by one of the ways of `flight_operands`, before or after the wait for the product before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from fuzz.flight_draft import Draft, indented
from fuzz.flight_operands import Operand, Tile, operand

COMMIT = "px.wgmma_commit()"
FEW = 40
"""Registers of a role that only issues copies."""


def wait(groups: int) -> str:
    return f"px.wgmma_wait({groups})"


@dataclass
class Plan:
    """The product of each step, (m, k) times (k, n), by so many warps."""

    draft: Draft
    tile: Tile
    n: int
    warps: int
    along: str
    by_n: bool
    given: int = 0
    """Registers by `regs=`."""
    right: str = ""
    """The buffer with the right operands of all steps."""
    count: str = ""
    """The text of the number of steps: a constant, or an argument."""

    @property
    def registers(self) -> int:
        """Of a thread that multiplies: what `regs=` says, or what all threads begin with."""
        return self.given or min(255, 2**16 // (32 * self.warps) // 8 * 8)

    def begin(self) -> None:
        """Declares the right operand and the number of steps."""
        shape = (self.tile.k, self.n) if self.by_n else (self.n, self.tile.k)
        kind = self.tile.kind
        low = -1 if kind.sums == "f16" else -3
        self.right = self.draft.in_shared("b", "B", kind.right, (self.tile.steps, *shape), low, -low)
        self.count = str(self.tile.steps)
        if self.draft.chance(0.5):
            self.count = self.draft.argument("steps", self.tile.steps)

    def accumulator(self, name: str) -> str:
        return f"{name} = px.zeros(({self.tile.m}, {self.n}), px.{self.tile.kind.sums})"

    def factor(self, step: str) -> str:
        return f"{self.right}[{step}]" + ("" if self.by_n else ".T")

    def product(self, a: str, step: str, acc: str, *, accumulate: str = "") -> str:
        more = f", accumulate={accumulate}" if accumulate else ""
        more += ', along="n"' if self.along == "n" else ""
        return f"px.wgmma({a}, {self.factor(step)}, {acc}{more})"

    def store(self, acc: str, first: str = "") -> str:
        first = first or self.tile.first
        rows = f"0:{self.tile.m}" if first == "0" else f"{first}:{first} + {self.tile.m}"
        out = self.draft.output(self.tile.kind.sums, (self.tile.rows, self.n))
        return f"px.store({out}[{rows}, 0:{self.n}], {acc})"

    def loop(self, *, static: bool = True, least: int = 0) -> str:
        """The head of a loop over all steps."""
        rng, start = self.draft.rng, f"{least}, " if least else ""
        ways = ["range", "range", "unroll", "unroll", *(["static"] if static else [])]
        way = rng.choice(ways)
        if way == "static":
            self.draft.note("px.static_range")
            return f"for i in px.static_range({start}{self.tile.steps}):"
        if way == "unroll":
            self.draft.note("px.unroll")
            return f"for i in px.unroll(range({start}{self.count}), {rng.choice((2, 3))}):"
        return f"for i in range({start}{self.count}):"

    def another(self) -> Operand:
        return operand(self.draft, self.tile)


Form = Callable[[Plan], list[str]]


def waited(plan: Plan, make: list[str], products: list[str], *, most: int = 2) -> list[str]:
    """The lines that make an operand, those that multiply, and a wait somewhere between them."""
    place = plan.draft.rng.choice(("between", "between", "before", "behind", "behind"))
    groups = plan.draft.rng.randint(0, most)
    plan.draft.note(f"wait({groups}) {place}")
    if place == "between":
        return [*make, wait(groups), *products]
    if place == "before":
        return [wait(groups), *make, *products]
    return [*make, *products, wait(groups)]


def one(plan: Plan) -> list[str]:
    """A product in each turn."""
    plan.begin()
    a = plan.another()
    turn = waited(plan, a.lines("i", "a"), [plan.product("a", "i", "acc"), COMMIT])
    return [plan.accumulator("acc"), *a.before, plan.loop(), *indented(turn), wait(0), plan.store("acc")]


def empty_start(plan: Plan) -> list[str]:
    """An accumulator that begins as nothing."""
    plan.begin()
    a = plan.another()
    start = plan.accumulator("acc").replace("px.zeros", "px.empty")
    turn = waited(plan, a.lines("i", "a"), [plan.product("a", "i", "acc", accumulate="i > 0"), COMMIT])
    return [start, *a.before, plan.loop(), *indented(turn), wait(0), plan.store("acc")]


def arms(plan: Plan) -> list[str]:
    """Products in both arms of an `if`."""
    plan.begin()
    a, b = plan.another(), plan.another()
    separate = plan.draft.chance(0.3)
    names = ("acc", "acc2" if separate else "acc")
    outside = [line for each, to in ((a, "a"), (b, "c")) if each.carried for line in each.lines("i", to)]

    def arm(each: Operand, to: str, acc: str) -> list[str]:
        return [*([] if each.carried else each.lines("i", to)), *inner, plan.product(to, "i", acc), COMMIT]

    at = plan.draft.rng.choice(("inside", "behind", "before"))
    groups = plan.draft.rng.randint(0, 2)
    plan.draft.note(f"wait({groups}) {at}")
    inner = [wait(groups)] if at == "inside" else []
    turn = [
        *([wait(groups)] if at == "before" else []), *outside, f"if i % {plan.draft.rng.choice((2, 3))} == 0:",
        *indented(arm(a, "a", names[0])), "else:", *indented(arm(b, "c", names[1])),
        *([wait(groups)] if at == "behind" else []),
    ]  # fmt: skip
    accumulators = list(dict.fromkeys(names))
    return [
        *map(plan.accumulator, accumulators), *a.before, *b.before, plan.loop(), *indented(turn), wait(0),
        *map(plan.store, accumulators),
    ]  # fmt: skip


def sometimes(plan: Plan) -> list[str]:
    """A product in some turns alone."""
    plan.begin()
    a = plan.another()
    when = plan.draft.rng.choice(("i > 0", "i % 2 == 0", "i % 3 != 1"))
    products = [plan.product("a", "i", "acc"), COMMIT]
    if a.carried or plan.draft.chance(0.5):
        turn = waited(plan, a.lines("i", "a"), [f"if {when}:", *indented(products)])
    else:
        turn = [f"if {when}:", *indented(waited(plan, a.lines("i", "a"), products))]
    return [plan.accumulator("acc"), *a.before, plan.loop(), *indented(turn), wait(0), plan.store("acc")]


def two_sums(plan: Plan) -> list[str]:
    """Two products of different operands in each turn."""
    plan.begin()
    a, b = plan.another(), plan.another()
    if plan.draft.chance(0.5):
        turn = [
            *a.lines("i", "a"), wait(plan.draft.rng.randint(0, 2)), plan.product("a", "i", "acc"), COMMIT,
            *b.lines("i", "c"), wait(plan.draft.rng.randint(0, 2)), plan.product("c", "i", "acc2"), COMMIT,
        ]  # fmt: skip
    else:
        products = [plan.product("a", "i", "acc"), plan.product("c", "i", "acc2"), COMMIT]
        turn = waited(plan, [*a.lines("i", "a"), *b.lines("i", "c")], products)
    return [
        plan.accumulator("acc"), plan.accumulator("acc2"), *a.before, *b.before, plan.loop(), *indented(turn), wait(0),
        plan.store("acc"), plan.store("acc2"),
    ]  # fmt: skip


def twice(plan: Plan) -> list[str]:
    """An operand that two products read, the second of another step."""
    plan.begin()
    a = plan.another()
    between = [COMMIT] if plan.draft.chance(0.5) else []
    products = [
        plan.product("a", "i", "acc"), *between, plan.product("a", f"({plan.tile.steps} - 1 - i)", "acc2"), COMMIT,
    ]  # fmt: skip
    return [
        plan.accumulator("acc"), plan.accumulator("acc2"), *a.before, plan.loop(),
        *indented(waited(plan, a.lines("i", "a"), products)), wait(0), plan.store("acc"), plan.store("acc2"),
    ]  # fmt: skip


def promoted(plan: Plan) -> list[str]:
    """Each product's sum is scaled and added to the whole, while the next one's operand is made or the next one runs."""
    plan.begin()
    a = plan.another()
    number = plan.tile.kind.number
    by_turn = f"({number(1)} + (i % 2).to(px.{plan.tile.kind.work}))" if plan.draft.chance(0.3) else number(2)

    def add(part: str, scale: str = number(2)) -> str:
        return f"acc = acc + {part}.to(px.{plan.tile.kind.work}) * {scale}"

    whole = f"acc = px.zeros(({plan.tile.m}, {plan.n}), px.{plan.tile.kind.work})"
    out = f"acc.to(px.{plan.tile.kind.sums})"
    way = plan.draft.rng.choice(("at once", "a turn later", "while the next runs"))
    plan.draft.note(f"promoted {way}")
    parts = [plan.accumulator("part")]
    product = [plan.product("a", "i", "part", accumulate="False"), COMMIT]
    if way == "at once":
        turn = [*a.lines("i", "a"), *product, wait(0), add("part", by_turn)]
        return [whole, *parts, *a.before, plan.loop(), *indented(turn), plan.store(out)]
    if way == "a turn later":
        turn = [*a.lines("i", "a"), wait(0), add("part", by_turn), *product]
        return [whole, *parts, *a.before, plan.loop(), *indented(turn), wait(0), add("part"), plan.store(out)]
    parts.append(plan.accumulator("other"))
    turn = [
        *a.lines("i", "a"), plan.product("a", "i", "part", accumulate="False"), COMMIT,
        wait(1), add("other"),
        *a.lines("(i + 1)", "c"), plan.product("c", "(i + 1)", "other", accumulate="False"), COMMIT,
        wait(1), add("part"),
    ]  # fmt: skip
    head = f"for i in range(0, {plan.count}, 2):"
    return [whole, *parts, *a.before, head, *indented(turn), wait(0), add("other"), plan.store(out)]


def nested(plan: Plan) -> list[str]:
    """A loop of tiles around that of the steps."""
    plan.begin()
    plan.tile = replace(plan.tile, rows=2 * plan.tile.m, first=f"t * {plan.tile.m}")
    a = plan.another()
    turn = waited(plan, a.lines("i", "a"), [plan.product("a", "i", "acc"), COMMIT])
    body = [plan.accumulator("acc"), *a.before, plan.loop(), *indented(turn), wait(0), plan.store("acc")]
    return [f"for t in {plan.draft.rng.choice(('range(2)', 'px.static_range(2)', 'px.persistent(2)'))}:", *indented(body)]


def open_loop(plan: Plan) -> list[str]:
    """A `while`, with a step that is counted by hand."""
    plan.begin()
    a = plan.another()
    turn = waited(plan, a.lines("i", "a"), [plan.product("a", "i", "acc"), COMMIT])
    return [
        plan.accumulator("acc"), *a.before, "i = 0", f"while i < {plan.count}:", *indented([*turn, "i += 1"]), wait(0),
        plan.store("acc"),
    ]  # fmt: skip


def broken_off(plan: Plan) -> list[str]:
    """A loop that a condition ends."""
    plan.begin()
    a = plan.another()
    last = plan.draft.argument("last", plan.draft.rng.randrange(plan.tile.steps))
    turn = waited(plan, a.lines("i", "a"), [plan.product("a", "i", "acc"), COMMIT])
    stop = [f"if i == {last}:", "    break"]
    turn = [*stop, *turn] if plan.draft.chance(0.5) else [*turn, *stop]
    return [
        plan.accumulator("acc"), *a.before, f"for i in range({plan.count}):", *indented(turn), wait(0), plan.store("acc")
    ]


def begun_before(plan: Plan) -> list[str]:
    """The first product before the loop; each turn makes the next one's operand while the one before runs."""
    plan.begin()
    a = plan.another()
    groups = plan.draft.rng.randint(0, 1)
    turn = [*a.lines("i", "a"), wait(groups), plan.product("a", "i", "acc"), COMMIT]
    return [
        plan.accumulator("acc"), *a.before, *a.lines("0", "a"), plan.product("a", "0", "acc"), COMMIT,
        plan.loop(least=1), *indented(turn), wait(0), plan.store("acc"),
    ]  # fmt: skip


def handed_on(plan: Plan) -> list[str]:
    """The operand of the next turn is made while this one's product runs, and handed on in a variable."""
    plan.begin()
    a = plan.another()
    groups = plan.draft.rng.randint(0, 1)
    turn = [
        plan.product("a", "i", "acc"), COMMIT, f"if i + 1 < {plan.count}:", *indented(a.lines("(i + 1)", "a")), wait(groups)
    ]
    if plan.draft.chance(0.5):
        turn = [plan.product("a", "i", "acc"), COMMIT, *a.lines(f"px.minimum(i + 1, {plan.tile.steps - 1})", "c"),
                wait(groups), "a = c"]  # fmt: skip
    return [
        plan.accumulator("acc"), *a.before, *a.lines("0", "a"), plan.loop(static=False), *indented(turn), wait(0),
        plan.store("acc"),
    ]  # fmt: skip


def fused(plan: Plan) -> list[str]:
    """`px.dot`, which waits by itself."""
    plan.begin()
    a = plan.another()
    along = ', along="n"' if plan.along == "n" else ""
    turn = [*a.lines("i", "a"), f"acc = px.dot(a, {plan.factor('i')}, acc{along})"]
    return [plan.accumulator("acc"), *a.before, plan.loop(), *indented(turn), plan.store("acc")]


def attention(plan: Plan) -> list[str]:
    """The scores of the next step are multiplied while those of this one are turned into an operand."""
    kind = plan.tile.kind
    if kind.left not in ("bf16", "f16") or plan.by_n or plan.along == "n":
        return one(plan)
    plan.begin()
    draft, tile, depth = plan.draft, plan.tile, 16
    left = draft.in_shared("sq", "Q", "bf16", (tile.m, depth), -1, 1)
    right = draft.in_shared("sk", "T", "bf16", (tile.steps, tile.k, depth), -1, 1)

    def scores(step: str, to: str) -> list[str]:
        start = f"{to} = px.zeros(({tile.m}, {tile.k}), px.f32)"
        return [start, f"px.wgmma({left}, {right}[{step}].T, {to})", COMMIT]

    made = draft.rng.choice(("px.maximum({} * 0.5, 0.0)", "px.exp2(px.minimum({}, 2.0) - px.maximum({}, 0.0))", "{} + 1.0"))
    turn = [
        *scores(f"px.minimum(i + 1, {tile.steps - 1})", "s"), plan.product("p", "i", "acc"), COMMIT, wait(1),
        f"made = {made.replace('{}', 's')}", wait(0), f"p = made.to({kind.px})",
    ]  # fmt: skip
    if draft.chance(0.5):
        turn[-3:] = [f"made = ({made.replace('{}', 's')}).to({kind.px})", wait(0), "p = made"]
    return [
        plan.accumulator("acc"), *scores("0", "s"), wait(0), f"p = ({made.replace('{}', 's')}).to({kind.px})",
        plan.loop(static=False), *indented(turn), plan.store("acc"),
    ]  # fmt: skip


def pipelined(plan: Plan) -> list[str]:
    """A loop that pipelines itself: what the products read comes from global memory."""
    draft, tile = plan.draft, plan.tile
    kind = tile.kind
    plan.tile = tile = replace(tile, fused=True)
    low = -1 if kind.sums == "f16" else -3
    source = draft.array("B", kind.right, (plan.n, tile.k * tile.steps), low, -low)
    plan.count = str(tile.steps) if draft.chance(0.5) else draft.argument("steps", tile.steps)
    a = plan.another()
    along = ', along="n"' if plan.along == "n" else ""
    turn = [
        *a.lines("i", "a"),
        f"acc = px.dot(a, px.load({source}[0:{plan.n}, {tile.columns('i')}]).T, acc{along})",
    ]
    return [
        plan.accumulator("acc"), *a.before, f"for i in px.pipelined(range({plan.count})):", *indented(turn),
        plan.store("acc"),
    ]  # fmt: skip


def roles(plan: Plan) -> list[str]:
    """A role fills a ring, and copies of another one multiply; each gives a stage back when its product is over."""
    draft, tile, kind = plan.draft, plan.tile, plan.tile.kind
    copies = draft.rng.choice((1, 2))
    m, stages, depth = tile.m, draft.rng.choice((2, 3)), tile.k
    plan.tile = tile = replace(tile, rows=m * copies, first=f"c * {m}" if copies > 1 else "0")
    low = -1 if kind.sums == "f16" else -3
    source = draft.array("B", kind.right, (tile.steps, plan.n, depth), low, -low)
    plan.right, plan.by_n = draft.unique("ring"), False
    draft.reserve(plan.right, kind.right, (stages, plan.n, depth))
    draft.shared.append(f"pipe = px.pipe({stages})")
    plan.count = str(tile.steps) if draft.chance(0.5) else draft.argument("steps", tile.steps)
    fed = [f"px.tma.load({source}[i, 0:{plan.n}, 0:{depth}], {plan.right}[s], pipe.full[s])"]
    if draft.chance(0.5) and depth >= 32:
        draft.note("nibbles of a ring")
        packed = draft.array("W", "u8", (tile.rows, depth * tile.steps // 2), 0, 255, nibbles=True)
        words = draft.unique("words")
        draft.reserve(words, "u8", (stages, tile.rows, depth // 2))
        half = depth // 2
        fed.append(
            f"px.tma.load({packed}[0:{tile.rows}, i * {half}:i * {half} + {half}], {words}[s], pipe.full[s])"
        )

        def lines(step: str, to: str) -> list[str]:
            less = f" - {kind.number(4)}" if kind.low < 0 else ""
            return [
                f"w = px.load({words}[s, {tile.row}, :])",
                "q = (w[:, :, None] >> (4 * px.arange(2)).to(px.u8)[None, None, :]) & 15",
                f"{to} = (q.reshape({m}, {depth}).to(px.{kind.work}){less}).to({kind.px})",
            ]

        a = Operand("nibbles of a ring", lines)
    else:
        a = plan.another()
    products = [plan.product("a", "s", "acc"), COMMIT]
    made, release = a.lines("i", "a"), ["if i > 0:", "    pipe.release()"]
    way = draft.rng.choice(("made under the product", "waited for behind", "released at once"))
    draft.note(way)
    if way == "made under the product":
        turn = ["s = pipe.wait()", *made, wait(0), *release, *products]
    elif way == "waited for behind":
        turn = ["s = pipe.wait()", *made, *products, wait(1), *release]
    else:
        turn = ["s = pipe.wait()", *made, *products, wait(0), "pipe.release()"]
    end = [] if way == "released at once" else ["pipe.release()"]
    consumers, few, most = plan.warps, "", ""
    plan.warps = consumers * copies + 4
    if draft.chance(0.6):
        draft.note("regs=")
        pool = plan.warps * plan.registers - 4 * FEW
        plan.given = min(232, pool // (consumers * copies) // 8 * 8)
        few, most = f", regs={FEW}", f", regs={plan.given}"
    many = f", copies={copies}{most}) as c:" if copies > 1 else f"{most}):"
    draft.note("copies" if copies > 1 else "one role")
    store = plan.store("acc")
    return [
        f"with px.warps(0, 1{few}):", f"    for i in range({plan.count}):", "        with pipe.produce() as s:",
        *indented(indented(indented(fed))),
        f"with px.warps(4, {consumers}{many}",
        *indented([plan.accumulator("acc"), *a.before, f"for i in range({plan.count}):", *indented(turn), wait(0)]),
        *indented([*end, store]),
    ]  # fmt: skip


FORMS: dict[str, Form] = {
    form.__name__.replace("_", " "): form
    for form in (
        one, empty_start, arms, sometimes, two_sums, twice, promoted, nested, open_loop, broken_off, begun_before, handed_on,
        fused, attention, pipelined, roles,
    )
}  # fmt: skip
