"""Every mistake ends in a `px.Error` whose whole text is kept; `--regenerate` writes the texts anew, to be read."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from errors.casebook import TOPICS, Case, all_cases, normalised, raised, read_expected, write_expected
from phalanx import language

CASES = all_cases()


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_message(case: Case, regenerate: bool) -> None:
    error = raised(case)
    text = normalised(str(error))
    if regenerate:
        texts = read_expected(case.topic)
        texts[case.name] = text
        order = [c.name for c in CASES if c.topic == case.topic]
        write_expected(case.topic, {name: texts[name] for name in order if name in texts})
        return
    assert text == read_expected(case.topic).get(case.name), "pytest tests/errors --regenerate, then read it"
    assert error.location.file.endswith(f"{case.topic}.py"), "the place is in the user's file"
    assert error.location.line > 0 and error.location.text.strip()
    assert error.remedy or error.kind == "assert", "says what to write"
    assert "internal" not in error.message
    assert error.message[-1] not in ".!" and "\n" not in error.message, "one sentence, without a full stop"
    assert error.__cause__ is None


def test_there_are_many_different_ones() -> None:
    texts = [text for topic in TOPICS for text in read_expected(topic).values()]
    assert len({text.partition("\n")[0] for text in texts}) >= 150


def test_every_mistake_of_the_language_has_a_remedy() -> None:
    """Each call of `fail` in the front end gives one, also those that no case reaches."""
    bare = [
        f"{file.name}:{call.lineno}"
        for file in sorted(Path(language.__path__[0]).rglob("*.py"))
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "fail"
        if len(call.args) < 2 and not any(k.arg == "remedy" for k in call.keywords)
    ]
    assert bare == []


@pytest.mark.parametrize("topic", TOPICS)
def test_no_text_is_left_over(topic: str) -> None:
    assert set(read_expected(topic)) == {c.name for c in CASES if c.topic == topic}
