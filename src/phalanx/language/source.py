"""A Python function as the reader needs it: its syntax tree, its lines, and the names it captures."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from phalanx.errors import Error
from phalanx.ir.location import Location


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """The parsed text of one function; line numbers and columns refer to the user's file."""

    fn: Callable[..., Any]
    node: ast.FunctionDef
    file: str
    first_line: int
    indent: int
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.fn.__name__

    def locate(self, node: ast.AST, caller: Location | None = None) -> Location:
        """Where `node` stands in the file."""
        line = getattr(node, "lineno", 1)
        end = getattr(node, "end_lineno", line) or line
        return Location(
            file=self.file,
            line=line + self.first_line - 1,
            column=getattr(node, "col_offset", 0) + self.indent,
            end_line=end + self.first_line - 1,
            end_column=(getattr(node, "end_col_offset", 0) or 0) + self.indent,
            text=self.lines[line - 1] if line <= len(self.lines) else "",
            function=self.name,
            caller=caller,
        )

    def lookup(self, name: str) -> Any:
        """A name of the enclosing scopes: closure, module, builtins. Raises KeyError."""
        code = self.fn.__code__
        if name in code.co_freevars and self.fn.__closure__ is not None:
            cell = self.fn.__closure__[code.co_freevars.index(name)]
            try:
                return cell.cell_contents
            except ValueError:
                raise KeyError(name) from None
        if name in self.fn.__globals__:
            return self.fn.__globals__[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise KeyError(name)


def read_source(fn: Callable[..., Any]) -> FunctionSource:
    """Parses `fn` from its file. A function typed into an interactive prompt without source is an error."""
    cached = getattr(fn, "__phalanx_source__", None)
    if cached is not None:
        return cached
    try:
        raw, first = inspect.getsourcelines(fn)
    except (OSError, TypeError) as problem:
        raise Error(
            f"the source of '{fn.__name__}' is not available",
            remedy="define kernels in a file or a notebook cell, not through exec()",
        ) from problem
    text = "".join(raw)
    indent = len(raw[0]) - len(raw[0].lstrip())
    tree = ast.parse(textwrap.dedent(text))
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        raise Error(
            f"'{getattr(fn, '__name__', fn)}' is not a plain function",
            remedy="write it with def; lambdas and async functions can't be kernels",
        )
    source = FunctionSource(fn, node, inspect.getsourcefile(fn) or "<unknown>", first, indent, tuple(raw))
    fn.__phalanx_source__ = source  # type: ignore[attr-defined]
    return source
