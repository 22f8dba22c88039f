"""What an exported function takes, for the calling conventions that are written around it."""

from __future__ import annotations

from phalanx.frozen import frozen
from phalanx.runtime.exporting.c_source import Launch
from phalanx.runtime.exporting.function_source import DIVISIONS, FunctionExport
from phalanx.runtime.exporting.parameters import ArrayParameter, ScalarParameter
from phalanx.runtime.symbolic.expressions import Expression
from phalanx.runtime.symbolic.tracing import ArrayGiven


@frozen
class ArrayItem:
    """An array that is passed with its strides; sizes are numbers or names."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@frozen
class ResultItem:
    """An array that is written: its sizes and strides in expressions of the named sizes."""

    name: str
    dtype: str
    shape: tuple[Expression, ...]
    strides: tuple[Expression, ...]


@frozen
class Interface:
    """A C function: the sizes, arrays and numbers that it takes, its results, and memory that it borrows.

    `space` is "" or the name of the last parameter: "counters", of `zeroed` bytes that are 0 before the first call, or
    "workspace", which begins with so many.
    """

    name: str
    described: str
    sizes: tuple[str, ...]
    items: tuple[ArrayItem | ScalarParameter, ...]
    results: tuple[ResultItem, ...]
    space: str
    zeroed: int
    archs: tuple[str, ...]

    @property
    def arrays(self) -> tuple[ArrayItem, ...]:
        """The arrays among the items."""
        return tuple(item for item in self.items if isinstance(item, ArrayItem))


def interface_of(made: Launch | FunctionExport) -> Interface:
    """The interface of an exported kernel or function."""
    if isinstance(made, Launch):
        items = tuple(
            ArrayItem(item.name, item.dtype, item.shape)
            if isinstance(item, ArrayParameter)
            else ScalarParameter(item.name, item.dtype)
            for item in made.parameters.items
        )
        counters = made.parameters.counters
        archs = tuple(program.arch for program in made.programs)
        space = "counters" if counters else ""
        return Interface(made.name, made.described, made.parameters.sizes, items, (), space, 4 * counters, archs)
    plans = made.plans
    results = tuple(
        ResultItem(plans.result_names[view.memory], view.dtype, view.shape, view.strides) for view in plans.results
    )
    given = tuple(
        ArrayItem(each.name, each.spec.dtype.name, each.spec.sizes)
        if isinstance(each, ArrayGiven)
        else ScalarParameter(each.name, "f64")
        for each in made.arguments
    )
    archs = tuple(program.arch for program in made.programs[0])
    space = "workspace" if plans.has_workspace else ""
    return Interface(made.name, made.described, made.sizes, given, results, space, plans.counters, archs)


def sizes_struct(interface: Interface) -> str:
    """C that the expressions of results refer to: the named sizes, and divisions that round as Python's do."""
    texts = " ".join(part.c() for result in interface.results for part in (*result.shape, *result.strides))
    names = ", ".join(interface.sizes) or "none"
    used = [text.replace("px_int", "int64_t") for name, text in DIVISIONS.items() if f"{name}(" in texts]
    return f"typedef struct {{ int64_t {names}; }} px_sizes;\n" + "".join(used)


def is_known(interface: Interface, expression: Expression) -> bool:
    """Whether an expression depends on named sizes alone."""
    return expression.symbols <= set(interface.sizes)
