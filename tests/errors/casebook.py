"""The collection of mistakes: each case is a function that makes one; its whole message is kept in a file."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import phalanx as px

HERE = Path(__file__).parent
TOPICS = tuple(sorted(path.stem for path in (HERE / "cases").glob("*.py")))


@dataclass(frozen=True)
class Case:
    """One mistake. `run` must raise `px.Error`."""

    topic: str
    name: str
    run: Callable[[], None]

    @property
    def id(self) -> str:
        return f"{self.topic}/{self.name}"


_CASES: list[Case] = []


def case(fn: Callable[[], None]) -> Callable[[], None]:
    """Registers a mistake; the function's name is the case's."""
    topic = fn.__module__.rsplit(".", 1)[-1]
    assert all((c.topic, c.name) != (topic, fn.__name__) for c in _CASES), f"{fn.__name__} is there twice"
    _CASES.append(Case(topic, fn.__name__, fn))
    return fn


def all_cases() -> list[Case]:
    for topic in TOPICS:
        importlib.import_module(f"errors.cases.{topic}")
    return _CASES


def raised(of: Case) -> px.Error:
    """The error that a case ends in."""
    try:
        of.run()
    except px.Error as error:
        return error
    raise AssertionError(f"{of.id}: no error")


def normalised(text: str) -> str:
    """Paths by their last part."""
    return re.sub(rf"[^\s:]*{re.escape(os.sep)}([\w.]+\.py):", r"\1:", text)


def expected_file(topic: str) -> Path:
    return HERE / "expected" / f"{topic}.txt"


def read_expected(topic: str) -> dict[str, str]:
    """The texts of a topic: sections that begin with `== name`."""
    file = expected_file(topic)
    if not file.exists():
        return {}
    parts = re.split(r"^== (\w+)\n", file.read_text(), flags=re.MULTILINE)[1:]
    return {name: text.rstrip("\n") for name, text in zip(parts[::2], parts[1::2], strict=True)}


def write_expected(topic: str, texts: dict[str, str]) -> None:
    expected_file(topic).parent.mkdir(exist_ok=True)
    expected_file(topic).write_text("\n".join(f"== {name}\n{text}\n" for name, text in texts.items()))
