"""A kernel compiled for a target: text, machine code, resources; made by NVRTC or found in the disk cache."""

from __future__ import annotations

import functools
import re
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from phalanx.cuda.abi import PLAIN, Extras, Signature
from phalanx.cuda.text.sites import Site
from phalanx.errors import Error, pip_install
from phalanx.frozen import frozen
from phalanx.ir.archs import Arch, arch_of, entry_registers
from phalanx.ir.core import Function, Note, Op
from phalanx.ir.printer import text
from phalanx.location import NOWHERE, Location
from phalanx.runtime.cache import DiskCache, Entry, compiler_fingerprint, digest
from phalanx.runtime.launch.strictness import refuse_slow

if TYPE_CHECKING:
    from phalanx.cuda.module import Module
    from phalanx.cuda.nvrtc import CompileFailure, Image, TouchedInFlight
    from phalanx.cuda.plan import Plan
    from phalanx.cuda.text.pressure import Pressure
    from phalanx.runtime.launch.launcher import Launcher


REGISTERS_IN_FLIGHT = ("C7513", "C7514", "C7515", "C7517")
"""What ptxas says where registers of a product are read or written while it is at work: then it waits for each one."""
TIMES_TOO_MANY = 3
"""Where tiles take so many times the registers that there are, they are kept in memory from the start."""
IN_MEMORY = ("--Ofast-compile=mid",)
"""How NVRTC does that: arrays stay arrays, and loops loops."""
LINE_INFO = ("--generate-line-info",)
MOST_TOLD = 6
"""Instructions that an error lists."""


@frozen(eq=False)
class Compiled:
    """What `px.compile` gives: `.ir`, `.source` (CUDA C++), `.ptx`, `.cubin`, `.notes`, and the resources it uses
    (`.shared_bytes`, `.registers`, `.spills`)."""

    name: str
    arch: str
    ir: str
    source: str
    ptx: str
    cubin: bytes
    notes: tuple[str, ...]
    shared_bytes: int
    registers: int
    spills: int
    warps: int
    cluster: tuple[int, int, int]
    signature: Signature
    sites: tuple[Site, ...] = field(default=(), repr=False)
    from_cache: bool = False
    pdl: bool = False
    cooperative: bool = False
    addresses_cluster: bool = field(default=False, repr=False)
    """Whether it addresses the shared memory of its cluster, if only its own: that needs a launch as a cluster."""

    def load(self, device: int) -> Launcher:
        """The kernel loaded on a CUDA device, ready to be launched."""
        from phalanx.runtime.launch.launcher import Launcher

        return Launcher(
            self.cubin,
            self.name,
            self.signature,
            device=device,
            threads=32 * self.warps,
            cluster=self.cluster,
            as_cluster=self.addresses_cluster,
            shared_bytes=self.shared_bytes,
            overlap=self.pdl,
            cooperative=self.cooperative,
        )

    def __repr__(self) -> str:
        return (
            f"<Compiled {self.name} for {self.arch}: {self.registers} registers, {self.spills} bytes spilled, "
            f"{self.shared_bytes} bytes of shared memory>"
        )


@functools.cache
def disk_cache() -> DiskCache:
    """The cache of compiled kernels on disk, opened when it is first asked for."""
    return DiskCache()


def compile_function(function: Function, arch_name: str | Arch, extras: Extras = PLAIN) -> Compiled:
    """Compiles a prepared function for a target, or takes the result from the disk cache."""
    arch = arch_of(arch_name)
    compiler = compiler_identity()
    key = program_key(function, arch, compiler, extras)
    cache = disk_cache()
    entry = cache.load(key)
    if entry is not None:
        found = from_entry(entry, function, arch)
        if found is not None:
            return found
    made = build(function, arch, extras)
    if compiler_identity() == compiler:  # else NVRTC, now that it is loaded, is another than it seemed
        cache.store(
            key,
            to_meta(made),
            {
                "cubin": made.cubin,
                "ptx": made.ptx.encode(),
                "source": made.source.encode(),
                "ir": made.ir.encode(),
            },
        )
    return made


def program_key(function: Function, arch: Arch, compiler: str, extras: Extras = PLAIN) -> str:
    """What a function would compile to, for a cache: its IR, the user's lines, the compiler's identity, the target.

    Machine code that says from which lines it comes has the paths of their files in it.
    """
    files = sorted({op.loc.file for op in function.walk()}) if extras.line_info else []
    return digest(text(function), source_digest(function), compiler, arch.name, repr(extras), *files)


def compiler_identity() -> str:
    """What makes machine code of IR, as part of every key: the sources of this package, and which NVRTC."""
    from phalanx.cuda.nvrtc import CompilerMissing, nvrtc_identity

    try:
        return digest(compiler_fingerprint(), nvrtc_identity())
    except CompilerMissing as problem:
        raise nvrtc_is_missing(problem) from None


class LossOfPerformance(Error):
    """What compiles, and would be slower than it is written: the assembler lets products wait for each other."""


def nvrtc_is_missing(problem: Exception) -> Error:
    """The error for a machine without the compiler of CUDA text."""
    from phalanx.cuda.nvrtc import has_packages

    how = "install the package nvidia-cuda-nvrtc" if has_packages() else "compile on Linux or Windows"
    return Error(f"NVRTC is not available: {problem}", remedy=f"{how}; the simulator and the checks work without it")


def require_known(arch: Arch) -> None:
    """Raises `px.Error` where the NVRTC of this process is too old for a target; `CompilerMissing` where there is none."""
    from phalanx.cuda.nvrtc import nvrtc_capabilities, nvrtc_version

    known, (major, minor) = nvrtc_capabilities(), arch.capability
    if not known or 10 * major + minor in known:
        return
    first = ".".join(map(str, arch.nvrtc))
    install = pip_install(f"nvidia-cuda-nvrtc>={first},<{arch.nvrtc[0] + 1}")
    raise Error(
        f"NVRTC {nvrtc_version()} does not know the target {arch}: {first} is the first that does",
        remedy=f"{install}, and compile before anything that brings an older one, such as torch, has loaded it",
    )


def source_digest(function: Function) -> str:
    """The user's lines behind the instructions: they appear in the CUDA text and in messages from the GPU."""
    lines = {(op.loc.short, op.loc.text.strip()) for op in function.walk()}
    return digest(*(f"{where} {line}" for where, line in sorted(lines)))


def planned(function: Function, arch: Arch) -> Plan:
    """What a target makes of a kernel, before its text is written: for tools that show its notes."""
    from phalanx.cuda.lower.lower import lower

    return lower(function, arch)


def build(function: Function, arch: Arch, extras: Extras = PLAIN) -> Compiled:
    """Lowers, writes the CUDA text and compiles it; once more where NVRTC moved registers of products in flight."""
    from phalanx.cuda.lower.lower import lower
    from phalanx.cuda.module import generate
    from phalanx.cuda.nvrtc import CompileFailure, CompilerMissing, TouchedInFlight
    from phalanx.cuda.text.cautions import CAREFREE, products_of
    from phalanx.cuda.text.lines import with_line_directives

    cautions = CAREFREE
    while True:
        plan = lower(function, arch, extras=extras, cautions=cautions)
        module = generate(plan)
        if extras.line_info:
            module = replace(module, source=with_line_directives(module.source, plan.function))
        try:
            require_known(arch)
            image = _assembled(plan, module, LINE_INFO if extras.line_info else ())
        except CompilerMissing as problem:
            raise nvrtc_is_missing(problem).at(function.loc) from None
        except TouchedInFlight as touched:
            instructions = [text for found in touched.violations for text in (found.flight, found.instruction)]
            more = cautions.after(instructions, touched.ptx, products_of(plan.function))
            if more is None:
                raise _touched(function, touched) from None
            cautions = more
        except CompileFailure as failure:
            more = None
            if failure.warnings and (plan.own_registers or failure.warnings[0].startswith(REGISTERS_IN_FLIGHT)):
                more = cautions.after_loss(plan.own_registers, products_of(plan.function))
            if more is not None:
                cautions = more
            elif failure.image is not None and (
                extras.shaken or extras.stamps or (function.on_loss == "note" and not function.strict)
            ):
                return _compiled(function, plan, module, failure.image, failure.warnings)
            else:
                raise _refused(function, plan, module, failure) from None
        else:
            return _compiled(function, plan, module, image)


def _assembled(plan: Plan, module: Module, options: tuple[str, ...]) -> Image:
    """The text compiled. Tiles that take many times the registers of a thread stay in memory, if NVRTC knows how: it takes
    half a minute to find places for them otherwise, most of which are in memory, too."""
    from phalanx.cuda.nvrtc import CompileFailure, TouchedInFlight, compile_cuda

    name = f"{plan.function.name}.cu"
    if _is_crowded(plan):
        try:
            return compile_cuda(module.source, plan.arch.name, name=name, options=(*IN_MEMORY, *options))
        except (CompileFailure, TouchedInFlight):
            pass
    return compile_cuda(module.source, plan.arch.name, name=name, options=options)


def _is_crowded(plan: Plan) -> bool:
    """Whether tiles, none of them of a product in flight, take many times the registers of a thread."""
    from phalanx.cuda.text.cautions import products_of

    function = plan.function
    most = TIMES_TOO_MANY * entry_registers(function.warps, function.ctas_per_sm)
    return not products_of(function) and _pressure(plan).peak(function.body) > most


def _touched(function: Function, touched: TouchedInFlight) -> Error:
    count = len(touched.violations)
    return Error(
        f"internal: {count} instruction{'s' * (count > 1)} of kernel '{function.name}' would touch registers in flight",
        location=function.loc,
        details="\n".join(map(str, touched.told(MOST_TOLD))),
        remedy="look at it with px.check: if that finds nothing, this is a bug of the compiler; please report it with "
        "the kernel",
    )


def _refused(function: Function, plan: Plan, module: Module, failure: CompileFailure) -> Error:
    """The error for a text that does not compile, or with a loss of performance."""
    if failure.warnings:
        first = failure.warnings[0]
        return LossOfPerformance(
            f"kernel '{function.name}' compiles with a loss of performance: {first}",
            location=_place_told(plan, module, first) or function.loc,
            details="\n".join(filter(None, (*failure.warnings, _fullest(plan)))),
            remedy=f'{remedy_for(first)}; @px.kernel(on_loss="note") takes it as it is',
        )
    too_few = _too_few_registers(function, plan, module, failure)
    if too_few is not None:
        return too_few
    written = _blamed(function, failure.log)
    if written is not None:
        return Error(
            f"the assembler does not take the PTX of px.ptx: '{written.assembly}'",
            location=written.loc,
            details=failure.log,
            remedy=f"check it against the PTX manual; it has to be there on {plan.arch.name}",
        )
    return Error(
        f"internal: the CUDA text of kernel '{function.name}' does not compile",
        location=function.loc,
        details=failure.log,
        remedy="this is a bug of the compiler: please report it with the kernel",
    )


_TOO_FEW = re.compile(r"\(C7602\) Insufficient registers \((\d+)\).*? register target of (\d+)")


def _too_few_registers(function: Function, plan: Plan, module: Module, failure: CompileFailure) -> Error | None:
    """The error where one instruction takes more registers than the threads of so large a CTA begin with."""
    match = _TOO_FEW.search(failure.log)
    if match is None:
        return None
    begins, needs = map(int, match.groups())
    enough = [warps for warps in range(1, function.warps) if entry_registers(warps, function.ctas_per_sm) >= needs]
    fewer = f", or let the CTA have {enough[-1]} warps at most" if enough else ""
    return Error(
        f"this takes {needs} registers of each thread, and the {32 * function.warps} threads of a CTA begin with {begins}",
        location=_place_told(plan, module, match[0]) or function.loc,
        details=_fullest(plan),
        remedy=f"write smaller tiles{fewer}: regs= shares out what threads begin with, and no instruction may take more "
        "than that",
    )


def _place_told(plan: Plan, module: Module, message: str) -> Location | None:
    """The user's line that a message of the assembler is about: the one that it names, else the first product's."""
    from phalanx.cuda.nvrtc import CompileFailure, compile_cuda
    from phalanx.cuda.text.cautions import products_of
    from phalanx.cuda.text.lines import user_line, without_line_directives

    products = products_of(plan.function)
    source = without_line_directives(module.source)
    usual = products[0].loc if products else None
    if not re.search(r"line [1-9]", message):
        return usual
    try:  # once more, with the lines of the text in the PTX
        compile_cuda(source, plan.arch.name, name=f"{plan.function.name}.cu", options=LINE_INFO)
    except CompileFailure as failure:
        named = (re.search(r"line ([1-9]\d*)", text) for text in failure.warnings or [failure.log])
        lines = [user_line(source, failure.ptx, int(match[1])) for match in named if match]
        places = {op.loc.short: op.loc for op in plan.function.walk() if op.loc is not NOWHERE}
        return next((places[line] for line in lines if line in places), usual)
    return usual


def _compiled(
    function: Function, plan: Plan, module: Module, image: Image, losses: tuple[str, ...] = ()
) -> Compiled:
    """The kernel as machine code; `losses`: what the assembler said of its speed, where that is no error."""
    refuse_slow(function, plan.notes, plan.arch)
    resources = image.resources_of(module.entry)
    spilled = resources.spill_store_bytes + resources.spill_load_bytes or (resources.stack_bytes if _is_crowded(plan) else 0)
    place = (_place_told(plan, module, losses[0]) or function.loc) if losses else NOWHERE
    return Compiled(
        name=module.entry,
        arch=plan.arch.name,
        ir=module.ir,
        source=module.source,
        ptx=image.ptx,
        cubin=image.cubin,
        notes=(
            *(str(note) for note in plan.notes),
            *(str(Note(f"a loss of performance: {loss}", place)) for loss in losses),
            *_spill_notes(plan, spilled),
        ),
        shared_bytes=plan.shared_bytes,
        registers=resources.registers,
        spills=spilled,
        warps=function.warps,
        cluster=function.cluster,
        signature=module.signature,
        sites=module.sites,
        pdl=function.pdl,
        cooperative=function.cooperative,
        addresses_cluster=module.addresses_cluster,
    )


_REMEDIES = (
    ("setmaxnreg", "give the role more registers with regs=, and others fewer; or use smaller tiles"),
    ("register resources", "use fewer registers: smaller tiles, more warps, regs= for the roles that need them"),
    ("accumulator", "leave accumulators alone between px.wgmma and the px.wgmma_wait for it"),
    ("call", "between px.wgmma and its wait use nothing that becomes a call: divisions of run-time integers, px.print"),
    ("branch", "put no if between px.wgmma and its wait: px.where chooses without one"),
    ("control flow", "let all warps of a role run the same px.wgmma: under no condition that differs between threads"),
)


def remedy_for(warning: str) -> str:
    """What helps against a loss of performance, by what the assembler says of it."""
    for word, remedy in _REMEDIES:
        if word in warning:
            return remedy
    return "keep what stands between px.wgmma and its px.wgmma_wait simple: no branches, no use of the accumulators"


def _spill_notes(plan: Plan, spilled: int) -> tuple[str, ...]:
    """How many bytes did not fit, and where most registers hold tiles."""
    if not spilled:
        return ()
    where = _fullest(plan)
    return (f"{spilled} bytes of registers are spilled" + (f"; {where}" if where else ""),)


def _fullest(plan: Plan) -> str:
    """Where most registers hold tiles: an estimate, since the assembler says nothing of places. Empty without tiles."""
    return _pressure(plan).fullest(plan.function)


def _pressure(plan: Plan) -> Pressure:
    """The tiles that registers hold at the same time, by place in the kernel."""
    from phalanx.cuda.text.cells import find_cells
    from phalanx.cuda.text.pressure import Pressure

    body = plan.function.body
    return Pressure(body, find_cells(body, plan.layouts), plan.layouts)


def _blamed(function: Function, log: str) -> Op | None:
    """The instruction with assembly of the user's that a compiler's message is about, where there are some."""
    written = [op for op in function.walk() if op.assembly]
    quoted = re.findall(r"'([^']+)'", log)
    named = (op for op in written if any(word and word in op.assembly for word in quoted))
    return next(named, written[0] if written else None)


def to_meta(made: Compiled) -> dict[str, Any]:
    """What the cache keeps of a compiled kernel beside its texts and machine code, as JSON takes it."""
    return {
        "name": made.name,
        "notes": list(made.notes),
        "shared_bytes": made.shared_bytes,
        "registers": made.registers,
        "spills": made.spills,
        "addresses_cluster": made.addresses_cluster,
        "signature": made.signature.to_json(),
        "sites": [site.to_json() for site in made.sites],
    }


def from_entry(entry: Entry, function: Function, arch: Arch) -> Compiled | None:
    """A cached result; None if the entry does not have the expected form."""
    try:
        meta, blobs = entry.meta, entry.blobs
        return Compiled(
            name=str(meta["name"]),
            arch=arch.name,
            ir=blobs["ir"].decode(),
            source=blobs["source"].decode(),
            ptx=blobs["ptx"].decode(),
            cubin=blobs["cubin"],
            notes=tuple(map(str, meta["notes"])),
            shared_bytes=int(meta["shared_bytes"]),
            registers=int(meta["registers"]),
            spills=int(meta["spills"]),
            warps=function.warps,
            cluster=function.cluster,
            signature=Signature.from_json(meta["signature"]),
            sites=tuple(map(Site.from_json, meta["sites"])),
            from_cache=True,
            pdl=function.pdl,
            cooperative=function.cooperative,
            addresses_cluster=bool(meta["addresses_cluster"]),
        )
    except (KeyError, TypeError, ValueError):
        return None
