"""The table of other languages' words: what it recommends exists, and a method of a class can be a kernel."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

import phalanx as px
from phalanx.language.reader.other_languages import LANGUAGES, SAME, WORDS, for_foreign, in_our_words


def found(path: str) -> object:
    item: object = px
    for part in path.split(".")[1:]:
        item = getattr(item, part)
    return item


@pytest.mark.parametrize("text", sorted({*WORDS.values(), *SAME.values()}))
def test_what_is_recommended_exists(text: str) -> None:
    for path in re.findall(r"px(?:\.[a-z_0-9]+)+", text):
        assert found(path) is not None, path


def test_no_word_is_one_of_ours() -> None:
    assert not set(WORDS) & set(px.__all__)


def test_underscores_of_cuda_do_not_count() -> None:
    assert in_our_words("__syncthreads") == in_our_words("syncthreads") == WORDS["syncthreads"]
    assert in_our_words("_syncthreads") is None and in_our_words("__unheard__") is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_an_answer(language: str) -> None:
    assert for_foreign(f"{language}.dot") == SAME["dot"]
    assert for_foreign(f"{language}.exp") == "it is px.exp here"
    assert "docs/coming_from.md" in str(for_foreign(f"{language}.unheard_of"))


def test_a_static_method_is_a_kernel() -> None:
    class Model:
        @staticmethod
        @px.kernel
        def fill(OUT):
            px.store(OUT[0:8], px.full((8,), 3.0))

    out = np.zeros(8, np.float32)
    Model.fill[1](out)
    assert (out == 3).all()


COMMAND = """
import numpy as np, phalanx as px
@px.kernel
def fill(OUT):
    px.store(OUT[0:8], px.full((8,), 3.0))
out = np.zeros(8, np.float32)
fill[1](out)
print(out.sum())
"""


def test_a_kernel_in_python_c() -> None:
    done = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True)
    assert done.stdout == "24.0\n", done.stderr


def test_a_kernel_at_a_prompt_says_where_to_write_it() -> None:
    done = subprocess.run([sys.executable, "-"], input=COMMAND, capture_output=True, text=True)
    assert "define kernels in a file, a notebook cell or python -c, not at a prompt" in done.stderr
    assert done.returncode == 1
