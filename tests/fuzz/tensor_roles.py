"""Kernels with roles for Blackwell's tensor cores, as text: a role that copies, one that multiplies, epilogues, and where
they are drawn one that puts A into tensor memory and one that asks for further tiles."""

from __future__ import annotations

from dataclasses import dataclass, field

from fuzz.choreo_parts import indented
from fuzz.tensor_plan import Plan

ASKS = '''
@px.func
def next_block(tiles, answers):
    with tiles.consume() as s:
        more, block = px.clc.query(answers[s])
    return more, block


@px.func
def ask(tiles, answers):
    more = True
    while more:
        with tiles.produce() as s:
            px.clc.try_cancel(answers[s], tiles.full[s])
        more, _ = next_block(tiles, answers)

'''


@dataclass
class Place:
    """A role's place in a ring of barriers: by `px.ring`, or by a number that counts."""

    name: str
    size: int
    counted: bool

    @property
    def stage(self) -> str:
        return f"{self.name} % {self.size}" if self.counted else f"{self.name}.stage"

    def parity(self, flipped: bool = False) -> str:
        end = " ^ 1" if flipped else ""
        return (f"{self.name} // {self.size} % 2" if self.counted else f"{self.name}.parity") + end

    @property
    def begin(self) -> list[str]:
        return [f"{self.name} = 0" if self.counted else f"{self.name} = px.ring({self.size})"]

    @property
    def end(self) -> list[str]:
        return [f"{self.name} += 1" if self.counted else f"{self.name}.advance()"]


@dataclass
class Roles:
    """Writes the text of a plan."""

    plan: Plan
    pair: str = ""
    roles: list[tuple[int, bool, list[str]]] = field(default_factory=list)
    """Warps, whether they begin at a multiple of four, and lines of each."""

    def __post_init__(self) -> None:
        p = self.plan
        self.pair = ", two_cta=True" if p.ctas == 2 else ""
        self.ring, self.turn = Place("ring", p.stages, p.counted), Place("turn", p.accs, p.counted)

    def text(self, title: str) -> str:
        p = self.plan
        self.roles = [(1, False, self.producer()), (1, False, self.multiplier()), *self.epilogues()]
        if p.tensor == "stored":
            self.roles.append((4, True, self.mover()))
        if p.loop == "clc":
            self.roles.append((1, False, ["ask(tiles, answers)"]))
        lines, warps = self.placed()
        names = ["A", "B", *(["SFA", "SFB"] if p.scaled else []), *(["D"] if p.begin == "stored" else []), "C"]
        cluster = f", cluster={p.cluster}" if p.cluster > 1 else ""
        head = [f'"""{title}"""', "", "import phalanx as px", "", *(ASKS.splitlines() if p.loop == "clc" else [""])]
        head += [f"@px.kernel(warps={warps}{cluster})", f"def program({', '.join(names)}):"]
        return "\n".join([*head, *indented([*self.declared(), *lines])]) + "\n"

    def placed(self) -> tuple[list[str], int]:
        """The roles at their warps: those of four first, or from warp 4 on with a single one before them."""
        roles = sorted(self.roles, key=lambda role: not role[1])
        single = [role for role in roles if not role[1]]
        first, before = 0, []
        if self.plan.rng.random() < 0.4:
            before, first = single, 4
            roles = [role for role in roles if role[1]]
        lines = []
        at = 0
        for warps, _, body in before:
            lines += [f"with px.warps({at}, {warps}):", *indented(body)]
            at += warps
        for warps, _, body in roles:
            lines += [f"with px.warps({first}, {warps}):", *indented(body)]
            first += warps
        return lines, max(first, at)

    # What all roles share.

    def declared(self) -> list[str]:
        p, t = self.plan, self.plan.types
        lines = ["rank = px.cluster.rank()"] if p.cluster > 1 else []
        lines += [f"half, x, y = rank % 2, rank // 2 % {p.cm}, rank // {2 * p.cm}"] if p.ctas == 2 else []
        lines += [f"x, y = rank % {p.cm}, rank // {p.cm}"] if p.ctas == 1 and p.cluster > 1 else []
        if p.tensor != "stored":
            shape = f"{p.bk}, {p.bm}" if p.ta else f"{p.bm}, {p.bk}"
            lines.append(f"a = px.shared(({p.stages}, {shape}), {t.declared(t.a)})")
        n = p.bn // p.ctas
        lines.append(f"b = px.shared(({p.stages}, {f'{p.bk}, {n}' if p.tb else f'{n}, {p.bk}'}), {t.declared(t.b)})")
        lines.append(f"acc = px.tmem(({p.accs}, {p.bm}, {p.bn}), px.{t.acc})")
        if p.tensor:
            lines.append(f"left = px.tmem(({p.stages}, {p.bm}, {p.bk}), {t.declared(t.a)})")
        if p.scaled:
            for name, rows in (("a", p.bm), ("b", p.bn)):
                shape = f"({p.stages}, {-(-rows // 128)}, {-(-p.count // 4)}, 32, 16)"
                lines += [f"sf{name} = px.shared({shape}, px.{t.scale})"]
                lines += [f"scale_{name} = px.tmem(({p.scale_stages}, {rows}, {p.count}), px.{t.scale})"]
        if p.out == "tma":
            lines.append(f"out = px.shared((2, {p.bm}, {p.part}), px.{p.to})")
        lines.append(
            f"pipe = px.pipe({p.stages})" if p.pipe else f"full, empty = px.barrier({p.stages}), px.barrier({p.stages})"
        )
        if p.tensor == "stored":
            lines.append(f"moved = px.barrier({p.stages})")
        if self.piped_accs:
            lines.append(f"accs = px.pipe({p.accs})")
        else:
            # Two roles in turns: each accumulator has the arrivals of one of them, which no count of the text would tell.
            count = f", count={p.ctas}, checked=False" if p.epilogue == "4/4" else ""
            lines.append(f"whole, taken = px.barrier({p.accs}), px.barrier({p.accs}{count})")
        if p.loop == "clc":
            lines += ["answers, tiles = px.shared((2, 4), px.i32), px.pipe(2)", "more, block = True, px.block_id(0)"]
        return lines

    @property
    def piped_accs(self) -> bool:
        return self.plan.acc_pipe and self.plan.begin != "stored"

    def each_tile(self, body: list[str]) -> list[str]:
        p = self.plan
        if p.loop == "one":
            return [f"tile = px.block_id(0) // {p.cluster}", *body]
        if p.loop == "persistent":
            first = f"px.block_id(0) // {p.cluster}"
            return [f"for tile in range({first}, {p.rows * p.columns}, {p.clusters}):", *indented(body)]
        rest = [f"tile = block // {p.cluster}", *body, "more, block = next_block(tiles, answers)"]
        return ["while more:", *indented(rest)]

    @property
    def origin(self) -> list[str]:
        """The corner of this CTA's tile of C."""
        p = self.plan
        i, j = f"tile % {p.rows}", f"tile // {p.rows}"
        i = f"({i} * {p.cm} + x)" if p.cluster > 1 else f"({i})"
        j = f"({j} * {p.cn} + y)" if p.cluster > 1 else f"({j})"
        return [f"m, n = {f'({i} * 2 + half)' if p.ctas == 2 else i} * {p.bm}, {j} * {p.bn}"]

    @property
    def rows_mask(self) -> str:
        """The CTAs that need the same rows of A."""
        p = self.plan
        bits = sum(1 << (p.ctas * p.cm * y) for y in range(p.cn))
        return f"{bits} << (half + 2 * x)" if p.ctas == 2 else f"{bits} << x"

    @property
    def columns_mask(self) -> str:
        """The CTAs that need the same part of B."""
        p = self.plan
        bits = sum(1 << (p.ctas * x) for x in range(p.cm))
        return f"{bits} << (half + {2 * p.cm} * y)" if p.ctas == 2 else f"{bits} << ({p.cm} * y)"

    @property
    def column_mask(self) -> str:
        """The CTAs that need the same scales of B: those of all halves."""
        p = self.plan
        return f"{(1 << p.ctas * p.cm) - 1} << ({p.ctas * p.cm} * y)"

    @property
    def fillers_mask(self) -> str | None:
        """The CTAs whose copies fill the stages that this CTA, or its pair, multiplies; None: this one alone.

        No others: an arrival on the barrier of one that fills nothing here could come twice where another's is missing."""
        p = self.plan
        if p.cluster == 1:
            return None
        both = (1 << p.ctas) - 1
        if p.led and not p.scaled:  # this CTA itself, which expects the bytes, and those who copy for its row and its column
            own, size = f"({both} << (rank & ~{p.ctas - 1}))", p.ctas
            row = f" | ({both << size * p.cm * (p.cn - 1)} << ({size} * x))" if p.cn > 1 else ""
            return own + row + (f" | ({both << size * (p.cm - 1)} << ({size * p.cm} * y))" if p.cm > 1 else "")
        row = sum(both << (p.ctas * p.cm * y) for y in range(p.cn))
        return f"({row} << ({p.ctas} * x)) | ({self.column_mask})"

    # The roles.

    def filled(self, body: list[str]) -> list[str]:
        """A turn of the role that copies, on a stage s."""
        if self.plan.pipe:
            return ["with pipe.produce() as s:", *indented(body)]
        return [
            f"s = {self.ring.stage}", f"empty[s].wait({self.ring.parity(True)})", "with full[s].transaction():",
            *indented(body), *self.ring.end,
        ]  # fmt: skip

    @property
    def bar(self) -> str:
        return "pipe.full[s]" if self.plan.pipe else "full[s]"

    def copy(self, source: str, target: str, mask: str | None) -> str:
        multicast = f", multicast={mask}" if mask else ""
        return f"px.tma.load({source}, {target}, {self.bar}{multicast}{self.pair})"

    def shared_out(
        self, array: str, buffer: str, base: str, whole: int, who: str, among: int, turned: bool, mask: str
    ) -> list[str]:
        """The copy of an operand: all of it, this CTA's share for all that need it, or all of it by one CTA for all."""
        p = self.plan
        depth = f"k * {p.bk} : k * {p.bk} + {p.bk}"
        each = whole if among == 1 or p.led else whole // among
        start = f"{who} * {each}"
        at = base if each == whole else f"{base} + {start}"
        source = f"{array}[{depth}, {at} : {at} + {each}]" if turned else f"{array}[{at} : {at} + {each}, {depth}]"
        part = f"{start} : {start} + {each}"
        target = f"{buffer}[s]" if each == whole else f"{buffer}[s][:, {part}]" if turned else f"{buffer}[s][{part}]"
        line = self.copy(source, target, mask if among > 1 else None)
        return [f"if {who} == {among - 1}:", *indented([line])] if among > 1 and p.led else [line]

    def producer(self) -> list[str]:
        p = self.plan
        lines = []
        if p.tensor != "stored":
            lines += self.shared_out("A", "a", "m", p.bm, "y", p.cn, p.ta, self.rows_mask)
        base = "n" + (f" + half * {p.bn // 2}" if p.ctas == 2 else "")
        lines += self.shared_out("B", "b", base, p.bn // p.ctas, "x", p.cm, p.tb, self.columns_mask)
        if p.scaled:
            lines += self.scale_copies()
        body = [f"for k in range({p.steps}):", *indented(self.filled(lines))]
        return [*([] if p.pipe else self.ring.begin), *self.each_tile([*self.origin, *body])]

    def scale_copies(self) -> list[str]:
        p = self.plan
        groups, high, wide = -(-p.count // 4), -(-p.bm // 128), -(-p.bn // 128)
        depth = f"k * {groups} : k * {groups} + {groups}"
        some, few = 32 // p.cn, 32 // (p.ctas * p.cm)
        lanes, part = f"y * {some} : y * {some} + {some}", f"[:, :, y * {some} : y * {some} + {some}]"
        if p.cn == 1:
            lanes, part = "0:32", ""
        at, mine = f"m // {p.bm} * {high}", f"n // {p.bn} * {wide}"
        lines = [self.copy(
            f"SFA[{at} : {at} + {high}, {depth}, {lanes}, 0:16]", f"sfa[s]{part}", self.rows_mask if p.cn > 1 else None
        )]  # fmt: skip
        number = "half" if p.cm == 1 else f"({p.ctas} * x + {'half' if p.ctas == 2 else '0'})"
        lanes, part = f"{number} * {few} : {number} * {few} + {few}", f"[:, :, {number} * {few} : {number} * {few} + {few}]"
        if few == 32:
            lanes, part = "0:32", ""
        mask = self.column_mask if few < 32 else None
        return [*lines, self.copy(f"SFB[{mine} : {mine} + {wide}, {depth}, {lanes}, 0:16]", f"sfb[s]{part}", mask)]

    def mover(self) -> list[str]:
        """Rows of A from global memory into tensor memory, stage by stage."""
        p = self.plan
        empty = "pipe.empty[s]" if p.pipe else "empty[s]"
        body = [
            f"s = {self.ring.stage}", f"{empty}.wait({self.ring.parity(True)})",
            f"px.tcgen05.store(left[s], px.load(A[m : m + {p.bm}, k * {p.bk} : k * {p.bk} + {p.bk}]))",
            f"moved[s].arrive({self.leader})", *self.ring.end,
        ]  # fmt: skip
        return [*self.ring.begin, *self.each_tile([*self.origin, f"for k in range({p.steps}):", *indented(body)])]

    @property
    def leader(self) -> str:
        """The CTA of a pair that multiplies, as an argument."""
        return "ctas=1 << (rank & ~1)" if self.plan.ctas == 2 else ""

    def multiplier(self) -> list[str]:
        p = self.plan
        lines = []
        if self.piped_accs:
            lines.append("t = accs.acquire()")
        else:
            lines.append(f"t = {self.turn.stage}")
            lines.append(f"taken[t].wait({self.turn.parity(p.begin != 'stored')})")
        step = self.step("k > 0" if p.begin == "condition" else "True")
        if p.begin == "peeled":
            lines += self.step("False")
            if p.steps > 1:
                lines += [f"for k in range({p.steps - 1}):", *indented(step)]
        else:
            lines += [f"for k in range({p.steps}):", *indented(step)]
        if self.piped_accs:
            lines.append(f"px.tcgen05.commit(accs{self.pair})")
        else:
            both = ", multicast=3 << (rank & ~1)" if p.ctas == 2 else ""
            lines += [f"px.tcgen05.commit(whole[t]{both}{self.pair})", *self.turn.end]
        if p.ctas == 2:
            lines = ["if half == 0:", *indented(lines)]
        begin = [] if p.pipe and p.tensor != "stored" else self.ring.begin
        begin += [] if self.piped_accs else self.turn.begin
        return [*begin, *self.each_tile(lines)]

    def step(self, accumulate: str) -> list[str]:
        """The products of one stage."""
        p = self.plan
        lines = ["s = pipe.wait()"] if p.pipe else [f"s = {self.ring.stage}", f"full[s].wait({self.ring.parity()})"]
        if p.tensor == "stored":
            lines.append(f"moved[s].wait({self.ring.parity()})")
        if p.tensor == "copied":
            lines.append(f"px.tcgen05.copy(a[s], left[s]{self.pair})")
        scale = ""
        if p.scaled:
            at = "s" if p.scale_stages == p.stages else "0"
            lines += [f"px.tcgen05.copy(sf{name}[s], scale_{name}[{at}]{self.pair})" for name in "ab"]
            scale = f", scale_a=scale_a[{at}], scale_b=scale_b[{at}]"
        a = "left[s]" if p.tensor else "a[s].T" if p.ta else "a[s]"
        b = "b[s]" if p.tb else "b[s].T"
        negate = ", negate=True" if p.negate else ""
        for use in (accumulate, "True")[: 1 + p.twice]:
            lines.append(f"px.tcgen05.mma({a}, {b}, acc[t], accumulate={use}{scale}{self.pair}{negate})")
        if p.pipe:
            lines.append(f"px.tcgen05.commit(pipe{self.pair})")
            return [*lines, *(self.ring.end if p.tensor == "stored" else [])]
        mask = self.fillers_mask
        where = f", multicast={mask}" if mask else ""
        return [*lines, f"px.tcgen05.commit(empty[s]{where}{self.pair})", *self.ring.end]

    def epilogues(self) -> list[tuple[int, bool, list[str]]]:
        p = self.plan
        if p.epilogue in ("4", "8"):
            return [(int(p.epilogue), True, self.epilogue(0, p.bm))]
        if p.epilogue == "4/4":
            return [(4, True, self.epilogue(0, p.bm, only)) for only in range(2)]
        warps = [int(n) for n in p.epilogue.split("+")]
        high = 128 // len(warps)
        return [(n, True, self.epilogue(w * high, high)) for w, n in enumerate(warps)]

    def epilogue(self, first: int, high: int, only: int | None = None) -> list[str]:
        """Takes rows of accumulators out: `high` of them from `first` on, and the same of the next 128; of all accumulators,
        or of `only` one."""
        p = self.plan
        blocks = range(first, p.bm, 128) if high < p.bm else (0,)
        back = "accs.release()" if self.piped_accs else f"taken[t].arrive({self.leader})"
        lines = [] if self.piped_accs else [f"t = {self.turn.stage}"]
        if p.begin == "stored":
            for row in blocks:
                whole = self.region("D", row, high, "0", p.bn)
                lines.append(f"px.tcgen05.store({self.view(row, high)}, px.load({whole}))")
            lines.append(back)
        lines.append("t = accs.wait()" if self.piped_accs else f"whole[t].wait({self.turn.parity()})")
        gives = [] if p.begin == "stored" else [back]
        for row in blocks:
            lines += self.parts(row, high, gives if p.early else [])
        lines += [] if p.early else gives
        if only is not None:
            lines = [f"if {self.turn.stage} == {only}:", *indented(lines)]
        lines += [] if self.piped_accs else self.turn.end
        begin = [] if self.piped_accs else self.turn.begin
        end = ["px.tma.wait(0)"] if p.out == "tma" else []
        return [*begin, *self.each_tile([*self.origin, *lines]), *end]

    def view(self, row: int, high: int) -> str:
        return "acc[t]" if high == self.plan.bm else f"acc[t][{row} : {row + high}]"

    def region(self, name: str, row: int, high: int, column: str, wide: int) -> str:
        up, left = f"m + {row}" if row else "m", f"n + {column}" if column != "0" else "n"
        return f"{name}[{up} : {up} + {high}, {left} : {left} + {wide}]"

    def parts(self, row: int, high: int, behind: list[str]) -> list[str]:
        """Columns, part by part: unrolled, or in a loop at run time; with what comes right `behind` the last load."""
        p = self.plan
        count = p.bn // p.part
        conversion = "" if p.to == p.types.acc else f".to(px.{p.to})"
        if count == 1:
            column, view = "0", self.view(row, high)
        else:
            column = f"part * {p.part}"
            rows = ":" if high == p.bm else f"{row} : {row + high}"
            view = f"acc[t][{rows}, {column} : {column} + {p.part}]"
        lines = [f"tile_of_c = px.tcgen05.load({view})"]
        if behind:
            lines += behind if count == 1 else [f"if part == {count - 1}:", *indented(behind)]
        region = self.region("C", row, high, column, p.part)
        if p.out == "tma":
            side = "part % 2" if count > 1 else "0"
            lines += [
                "px.tma.wait(1, read=True)" if count > 1 and count % 2 == 0 else "px.tma.wait(0, read=True)",
                f"px.store(out[{side}], tile_of_c{conversion})", "px.fence.async_proxy()",
                f"px.tma.store(out[{side}], {region})", "px.tma.commit()",
            ]  # fmt: skip
        else:
            lines.append(f"px.store({region}, tile_of_c{conversion})")
        if count == 1:
            return lines
        loop = "range" if p.counted and not (behind and self.piped_accs) else "px.static_range"
        return [f"for part in {loop}({count}):", *indented(lines)]
