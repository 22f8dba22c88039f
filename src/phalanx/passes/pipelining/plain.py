"""The plain form of a kernel: its loops as they are written."""

from __future__ import annotations

import dataclasses

from phalanx.ir.core import Function, Op, rewrite
from phalanx.ir.ops.control import For


def without_pipelining(function: Function) -> Function:
    """The kernel whose loops do not run ahead; itself if none does. For launches that ask for it."""

    def visit(op: Op) -> list[Op] | None:
        if not isinstance(op, For) or op.pipelined is None:
            return None
        return [dataclasses.replace(op, pipelined=None)]

    body = rewrite(function.body, visit)
    return function if body is function.body else dataclasses.replace(function, body=body)
