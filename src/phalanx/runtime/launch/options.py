"""What users give a launch besides its arguments: `arch=`, a target, and `pipelined=`, whether loops run ahead."""

from __future__ import annotations

import os
from typing import Any

from phalanx.errors import Error
from phalanx.ir.archs import ARCHS, Arch, arch_of
from phalanx.language.kernel import Kernel


def named_arch(arch: Any) -> Arch | None:
    """The target that a user names with `arch=`; None stands for the default."""
    if arch is None or isinstance(arch, Arch):
        return arch
    if not isinstance(arch, str):
        raise Error(f"arch={arch!r}", remedy=f"give the name of a target: {', '.join(ARCHS)}")
    return arch_of(arch)


def split_target(kernel: Kernel, given: dict[str, Any]) -> tuple[dict[str, Any], Arch | None, bool]:
    """The constants of a launch; the target that its `arch=` names; whether loops pipeline themselves (`pipelined=`).

    A constant of the kernel that has such a name goes before.
    """
    named = {name for name in ("arch", "pipelined") if name in given and not _has_constant(kernel, name)}
    if not named:
        return given, None, True
    constants = dict(given)
    arch = named_arch(constants.pop("arch")) if "arch" in named else None
    pipelined = require_pipelined(constants.pop("pipelined")) if "pipelined" in named else True
    return constants, arch, pipelined


def _has_constant(kernel: Kernel, name: str) -> bool:
    return name in kernel.constants or name in kernel.required


def require_pipelined(pipelined: Any) -> bool:
    """What users give as `pipelined=`: whether loops over px.pipelined are more than plain ones."""
    if not isinstance(pipelined, bool):
        raise Error(f"pipelined={pipelined!r}", remedy="it is True or False: whether loops over px.pipelined run ahead")
    return pipelined


def wants_line_info(given: bool | None = None) -> bool:
    """Whether machine code is to say from which lines of the user's it comes: as given, else as `PHALANX_LINE_INFO` says."""
    return os.environ.get("PHALANX_LINE_INFO", "") not in ("", "0") if given is None else given
