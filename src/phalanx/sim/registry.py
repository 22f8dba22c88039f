"""The functions that say what instructions mean. A test compares these tables with `ir.core.INSTRUCTIONS`.

Three kinds of meaning, in `sim/ops/<family>.py`:

- `@meaning(TmaLoad)`: called once per instruction and agent, returns the function that runs it. That function
  gets one argument per operand field of the dataclass, in field order, resolved: a value as a number or NumPy
  array, a shared view as a `BufferPlace`, a global view as a `GlobalPlace`, a barrier as an `MBarrier`, a
  missing optional operand as None. With `blocks=True` it returns True after it has registered the agent with
  whatever will wake it; when the agent goes on, the instruction is over.
- `@text(If)`: writes Python source; for control flow.
- `@inline(Binary)`: may return a Python expression for the scalar case, None to use the meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phalanx.errors import Error
from phalanx.frozen import frozen
from phalanx.ir.core import Op


@frozen
class Meaning:
    """`prepare(op, agent)` returns the function that runs `op` for that agent."""

    prepare: Callable[[Any, Any], Callable[..., Any]]
    blocks: bool = False


MEANINGS: dict[type[Op], Meaning] = {}
TEXTS: dict[type[Op], Callable[[Any, Any], None]] = {}
INLINES: dict[type[Op], Callable[[Any, Any], str | None]] = {}

NEVER_RUN: dict[type[Op], str] = {}
"""Instructions without a meaning of their own, and why."""


def meaning(cls: type[Op], *, blocks: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what `cls` does at run time.

    For the files of `sim/ops`. Example::

        @meaning(Store)
        def store(op: Store, agent: Agent) -> Callable[..., None]:
            return lambda view, value: view.write(value)
    """

    def register(prepare: Callable[..., Any]) -> Callable[..., Any]:
        MEANINGS[cls] = Meaning(prepare, blocks)
        return prepare

    return register


def text(cls: type[Op]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Registers the writer of Python source for `cls`: `write(op, emitter)`."""

    def register(write: Callable[..., None]) -> Callable[..., None]:
        TEXTS[cls] = write
        return write

    return register


def inline(cls: type[Op]) -> Callable[[Callable[..., str | None]], Callable[..., str | None]]:
    """Registers the scalar shortcut of `cls`: `express(op, emitter)` returns a Python expression or None."""

    def register(express: Callable[..., str | None]) -> Callable[..., str | None]:
        INLINES[cls] = express
        return express

    return register


def never_run(cls: type[Op], why: str) -> None:
    """Says why an instruction has no meaning of its own: a pass replaces it, or another instruction runs it."""
    NEVER_RUN[cls] = why


def text_of(op: Op) -> Callable[[Any, Any], None] | None:
    """The writer of Python source that was registered for an instruction, if any."""
    return TEXTS.get(type(op))


def inline_of(op: Op) -> Callable[[Any, Any], str | None] | None:
    """The scalar shortcut that was registered for an instruction, if any."""
    return INLINES.get(type(op))


def meaning_of(op: Op) -> Meaning:
    """What an instruction means; `px.Error` at its line, before anything runs, if its family says nothing."""
    found = MEANINGS.get(type(op))
    if found is None:
        raise Error(
            f"nothing says what {op.call} does in the simulator", location=op.loc,
            remedy=f"this is a mistake in Phalanx, not in the kernel: register what {op.mnemonic} means with @meaning in "
            f"sim/ops/{op.family}.py",
        )
    return found


def covered() -> set[type[Op]]:
    """Every instruction that has a meaning or says why not."""
    return set(MEANINGS) | set(TEXTS) | set(NEVER_RUN)
