"""Modules in kernels: `px` and its parts, `math`, NumPy and the user's own."""

from __future__ import annotations

import difflib
from types import ModuleType

import numpy as np

from phalanx.ir.types import FROM_NUMPY
from phalanx.language.builder import Builder
from phalanx.language.objects import Arguments, HostFunction, Keywords, PlainObject, as_object
from phalanx.language.reader.capture import CAPTURES, constant
from phalanx.language.reader.other_languages import LANGUAGES, for_foreign, in_our_words

TILE_FUNCTIONS = (
    "abs", "all", "any", "arange", "argmax", "argmin", "ceil", "cos", "cumsum", "erf", "exp", "exp2", "floor", "full",
    "isnan", "log", "log2", "max", "maximum", "min", "minimum", "round", "sin", "sqrt", "sum", "tanh", "trunc", "where",
    "zeros",
)
"""Functions whose NumPy namesakes users reach for first."""


class ModuleObject(PlainObject):
    """A module: kernels use the constants and functions in it."""

    value: ModuleType

    def member(self, ctx: Builder, name: str) -> object:
        """What the module has under this name, if kernels can use it."""
        owner, shown = self.value, self.shown
        ours = owner.__name__.partition(".")[0] == "phalanx"
        public = owner.__all__ if hasattr(owner, "__all__") else dir(owner)
        if not hasattr(owner, name) or (ours and name not in public):
            close = difflib.get_close_matches(name, public, 1)
            remedy = f"did you mean {shown}.{close[0]}?" if close else "docs/reference.md lists what there is"
            ctx.fail(f"{shown} has no '{name}'", (in_our_words(name) if ours else None) or remedy)
        raw = getattr(owner, name)
        found = constant(raw)
        if (found is None and raw is not None) or isinstance(found, HostFunction):
            match = FROM_NUMPY.get(np.dtype(raw)) if isinstance(raw, type) and issubclass(raw, np.generic) else None
            remedy = f"kernels use {CAPTURES}"
            if match is not None or name in TILE_FUNCTIONS:
                remedy = f"use px.{match or name}"
            elif owner.__name__.partition(".")[0] == "numpy":
                remedy = in_our_words(name) or remedy
            elif (language := owner.__name__.partition(".")[0]) in LANGUAGES:
                remedy = for_foreign(f"{language}.{name}") or remedy
            refusal = f"{shown}.{name} can't be used in kernels"
            if callable(raw) and not isinstance(raw, type):
                return HostFunction(raw, refusal, remedy)  # sim= of px.ptx takes it
            ctx.fail(refusal, remedy)
        return found

    def call(self, ctx: Builder, args: Arguments, kwargs: Keywords) -> object:
        """Modules are not called: their functions are."""
        owner = self.value
        functions = [name for name in getattr(owner, "__all__", ()) if callable(getattr(owner, name))]
        listed = ", ".join(f"{self.shown}.{name}" for name in functions[:4])
        ctx.fail(f"{self.shown} can't be called", f"its functions are: {listed}" if listed else "call a function of it")

    @property
    def shown(self) -> str:
        """Its name as kernels write it."""
        package, _, rest = self.value.__name__.partition(".")
        if package != "phalanx":
            return self.value.__name__
        return "px." + rest.rsplit(".", 1)[-1] if rest else "px"


as_object.register(ModuleType, ModuleObject)
