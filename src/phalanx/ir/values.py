"""Values that instructions read and define."""

from __future__ import annotations

from phalanx.ir.types import BOOL, F32, I32, I64, ArrayType, ScalarType, Type


class Value:
    """The result of one instruction. Identity is what counts; `name` is a hint for the printer."""

    __slots__ = ("name", "type")

    def __init__(self, type: Type, name: str = "") -> None:
        self.type = type
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or '?'}: {self.type}>"


class Const(Value):
    """A number known at compile time."""

    __slots__ = ("value",)

    def __init__(self, value: int | float | bool, type: ScalarType | None = None) -> None:
        super().__init__(type or constant_type(value))
        self.value = value

    def __repr__(self) -> str:
        return f"<Const {self.value}: {self.type}>"


class Var(Value):
    """A mutable cell: what a run-time loop or branch carries. Only `Assign` writes and `ReadVar` reads it."""

    __slots__ = ()


class Param(Value):
    """A positional parameter of the kernel: a global array or a scalar."""

    __slots__ = ("index",)

    def __init__(self, type: Type, name: str, index: int) -> None:
        super().__init__(type, name)
        self.index = index

    @property
    def is_array(self) -> bool:
        """Whether it is a global array, not a scalar."""
        return isinstance(self.type, ArrayType)


class Label:
    """The name of a loop or scope that `Break`, `Continue` and `Leave` refer to."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<Label {self.name}>"


def constant_type(value: int | float | bool) -> ScalarType:
    """The type a bare Python number takes: bool, i32 (i64 where 32 bits do not hold it), f32."""
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, int):
        return I32 if -(2**31) <= value < 2**31 else I64
    return F32


def constant_of(value: Value | None) -> int | float | bool | None:
    """The number behind a constant, None for everything else."""
    return value.value if isinstance(value, Const) else None
