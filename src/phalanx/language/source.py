"""A Python function as the reader needs it: its syntax tree, its lines, and the names it captures."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.location import NOWHERE, Location


@frozen(eq=False)
class FunctionSource:
    """The parsed text of one function; line numbers and columns refer to the user's file."""

    fn: Callable[..., Any]
    node: ast.FunctionDef
    file: str
    first_line: int
    lines: tuple[str, ...]
    places: dict[ast.AST, Location] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.fn.__name__

    @cached_property
    def signature(self) -> inspect.Signature:
        return inspect.signature(self.fn)

    def locate(self, node: ast.AST, caller: Location | None = None) -> Location:
        """Where `node` stands in the file; asked for every expression, so the answers are kept."""
        if caller is not None:
            return self._place(node, caller)
        found = self.places.get(node)
        if found is None:
            found = self.places[node] = self._place(node, None)
        return found

    def _place(self, node: ast.AST, caller: Location | None) -> Location:
        line = getattr(node, "lineno", 1)
        end = getattr(node, "end_lineno", line) or line
        return Location(
            file=self.file,
            line=line + self.first_line - 1,
            column=self._characters(line, getattr(node, "col_offset", 0)),
            end_line=end + self.first_line - 1,
            end_column=self._characters(end, getattr(node, "end_col_offset", 0) or 0),
            text=self.lines[line - 1] if line <= len(self.lines) else "",
            function=self.name,
            caller=caller,
        )

    def _characters(self, line: int, offset: int) -> int:
        """A column as the syntax tree counts it (bytes of UTF-8) in characters."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))

    def is_local(self, name: str) -> bool:
        """Whether Python makes `name` a variable of this function: it is assigned somewhere in it."""
        code = self.fn.__code__
        return name in code.co_varnames or name in code.co_cellvars

    def lookup(self, name: str) -> Any:
        """A name of the enclosing scopes: closure, module, builtins. A dotted one is an attribute. Raises KeyError."""
        name, *attributes = name.split(".")
        found = self._lookup(name)
        for attribute in attributes:
            found = getattr(found, attribute)
        return found

    def _lookup(self, name: str) -> Any:
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
            location=Location(fn.__code__.co_filename, fn.__code__.co_firstlineno)
            if hasattr(fn, "__code__")
            else NOWHERE,
            remedy="define kernels in a file or a notebook cell, not through exec()",
        ) from problem
    node = parse_function(raw)
    if node is None:
        raise Error(
            f"'{getattr(fn, '__name__', fn)}' is not a plain function",
            location=Location(inspect.getsourcefile(fn) or "<unknown>", first, text=raw[0]),
            remedy="write it with def; lambdas and async functions can't be kernels",
        )
    source = FunctionSource(fn, node, inspect.getsourcefile(fn) or "<unknown>", first, tuple(raw))
    fn.__phalanx_source__ = source  # type: ignore[attr-defined]
    return source


def parse_function(lines: list[str]) -> ast.FunctionDef | None:
    """The `def` in `lines`, as indented as it stands there; line 1 is the first of them. None if it is not one."""
    text = "".join(lines)
    indented = lines[0][:1] in (" ", "\t")
    try:
        tree = ast.parse("if True:\n" + text if indented else text)
    except SyntaxError:  # a lambda in the middle of an expression, say
        return None
    node = tree.body[0]
    if indented:
        assert isinstance(node, ast.If)
        node = node.body[0]
        ast.increment_lineno(node, -1)
    return node if isinstance(node, ast.FunctionDef) else None
