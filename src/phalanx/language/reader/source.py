"""A Python function as the reader needs it: its syntax tree, its lines, and the names it captures."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
import tokenize
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from types import CodeType
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.location import Location


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
        """The function's name."""
        return self.fn.__name__

    @cached_property
    def signature(self) -> inspect.Signature:
        """The function's parameters."""
        return inspect.signature(self.fn)

    @cached_property
    def is_of_the_language(self) -> bool:
        """Whether it is part of the language, not of somebody's kernel."""
        return (self.fn.__module__ or "").startswith("phalanx.language.")

    def locate(self, node: ast.AST, caller: Location | None = None) -> Location:
        """Where `node` stands in the file; asked for every expression, so the answers are kept.

        What the language writes in itself stands where the user called for it.
        """
        if caller is not None and self.is_of_the_language:
            return caller
        found = self.places.get(node)
        if found is None:
            found = self.places[node] = self._place(node)
        return found if caller is None else found.called_from(caller)

    def _place(self, node: ast.AST) -> Location:
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
        )

    def _characters(self, line: int, offset: int) -> int:
        """A column as the syntax tree counts it (bytes of UTF-8) in characters."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))

    def is_local(self, name: str) -> bool:
        """Whether Python makes `name` a variable of this function: it is assigned somewhere in it."""
        code = self.fn.__code__
        return name in code.co_varnames or name in code.co_cellvars

    def lookup(self, name: str) -> object:
        """A name of the enclosing scopes: closure, module, builtins. A dotted one is an attribute. Raises KeyError."""
        name, *attributes = name.split(".")
        found = self._lookup(name)
        for attribute in attributes:
            found = getattr(found, attribute)
        return found

    def _lookup(self, name: str) -> object:
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


def keep_source(fn: Callable[..., Any]) -> None:
    """Takes hold of the text of the file that `fn` was just defined in: the file may change before it is read."""
    plain = inspect.unwrap(fn)
    code = getattr(plain, "__code__", None)
    if code is None or hasattr(fn, "__phalanx_lines__"):
        return
    file = inspect.getsourcefile(plain) or code.co_filename
    linecache.checkcache(file)
    fn.__phalanx_lines__ = linecache.getlines(file, plain.__globals__) or of_command(file)  # type: ignore[attr-defined]


def of_command(file: str) -> list[str]:
    """The lines of `python -c TEXT`, whose functions name "<string>" as their file; none for any other."""
    given = sys.orig_argv
    if file != "<string>" or sys.argv[:1] != ["-c"] or "-c" not in given[:-1]:
        return []
    return given[given.index("-c") + 1].splitlines(keepends=True)


def read_source(fn: Callable[..., Any]) -> FunctionSource:
    """Parses `fn` from the text it was imported from. A function typed into a prompt without source is an error."""
    cached = getattr(fn, "__phalanx_source__", None)
    if cached is not None:
        return cached
    keep_source(fn)
    plain = inspect.unwrap(fn)
    code = plain.__code__  # type: ignore[attr-defined]
    file, first = inspect.getsourcefile(plain) or code.co_filename, code.co_firstlineno
    lines: list[str] = fn.__phalanx_lines__  # type: ignore[attr-defined]
    if not lines:
        raise Error(
            f"the source of '{fn.__name__}' is not available",
            location=Location(file, first),
            remedy="define kernels in a file, a notebook cell or python -c, not at a prompt or through exec()",
        )
    raw = block_at(lines, first)
    node = parse_function(raw) if raw else None
    if raw and node is None and not is_def(plain):
        raise Error(
            f"'{getattr(fn, '__name__', fn)}' is not a plain function",
            location=Location(file, first, text=raw[0]),
            remedy="write it with def; lambdas and async functions can't be kernels",
        )
    if node is None or not is_same(node, plain):
        raise Error(
            f"what stands at line {first} of its file is not '{fn.__name__}' as it was imported",
            location=Location(file, first, text=raw[0] if raw else ""),
            remedy="the file was changed since then: import it again",
        )
    source = FunctionSource(fn, node, file, first, tuple(raw))
    fn.__phalanx_source__ = source  # type: ignore[attr-defined]
    return source


def block_at(lines: list[str], first: int) -> list[str]:
    """The lines of the function that begins at line `first`; none where the file ends before it."""
    try:
        return inspect.getblock(lines[first - 1 :])
    except (IndexError, SyntaxError, tokenize.TokenError):
        return []


def is_def(fn: Callable[..., Any]) -> bool:
    """Whether a function was written with `def`: no lambda, no coroutine."""
    return fn.__name__ != "<lambda>" and not inspect.iscoroutinefunction(fn) and not inspect.isasyncgenfunction(fn)


def is_same(node: ast.FunctionDef, fn: Callable[..., Any]) -> bool:
    """Whether a function's text compiles to what `fn` runs, as far as its names and constants tell."""
    alone = ast.Module([ast.copy_location(ast.FunctionDef(**{**vars(node), "decorator_list": []}), node)], [])
    try:
        outer = compile(ast.fix_missing_locations(alone), "<kernel>", "exec")
    except (SyntaxError, ValueError, RecursionError):  # `nonlocal` of a closure, say: Python read it once, in its place
        return node.name == fn.__name__
    made = next((item for item in outer.co_consts if isinstance(item, CodeType) and item.co_name == node.name), None)
    code: CodeType = fn.__code__  # type: ignore[attr-defined]
    if made is None or code.co_name != node.name:
        return False
    if any("@py" in name for name in (*code.co_varnames, *code.co_names)):  # pytest has rewritten its assertions
        return True
    return _contents(made) == _contents(code)


def _contents(code: CodeType) -> tuple[object, ...]:
    """Parameters, names and constants; what depends on where a function stands (closures, private names) left out."""
    names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    constants = sorted(repr(item) for item in code.co_consts if not isinstance(item, CodeType))
    return parameters, {name for name in names if "__" not in name}, constants


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
