"""Exports as data: a manifest is never run, and files of somebody else's are never overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import phalanx as px
from export.test_export import scale
from export.test_loader import loaded
from phalanx.runtime.exporting.folder import LISTING, ExportFolder

SUBCLASSES = "().__class__.__base__.__subclasses__()"
HOSTILE = (
    SUBCLASSES, "__import__('os').system('touch {0}')", "open('{0}', 'w')", "m.__class__", "[1, 2]", "m if m else n",
    "(lambda: m)()", "m ** n", "'a' * 9", "m < n < 9", "unknown", "m; n", "1 +", "",
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> px.export:
    matrix = px.spec(("m", "n"), px.f32)
    folder = tmp_path_factory.mktemp("export")
    return px.export(scale[lambda m, n: (px.cdiv(m, 64), px.cdiv(n, 64))], matrix, matrix, 2.0, to=folder)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_of_the_manifest_is_arithmetic_or_refused(text: str, made, monkeypatch, tmp_path: Path) -> None:
    """Each of them was evaluated as Python once, and what it names was called."""
    module, driver = loaded(made, monkeypatch)
    launch, mark = module.load(), tmp_path / "mark"
    for end in launch.manifest["ends"]:
        for each in end["launches"]:
            each["grid"] = [text.format(mark), "1", "1"]
    with pytest.raises(ValueError, match=r"in the manifest is no arithmetic"):
        launch(0x10000, 0x20000, 0.5, sizes={"m": 100, "n": 200})
    assert not driver.launches and not mark.exists()


def test_arithmetic_is_computed(made, monkeypatch) -> None:
    module, _ = loaded(made, monkeypatch)
    values = {"m": 100, "n": 7, "alpha": 0.5}
    for text in ("(-(-m // 64))", "(m - n) * 2 % 5", "m + -1", "m <= 100", "n == 8", "m < n", "alpha / 2.0 - 1e-06", "True"):
        assert module._value(text, values) == eval(text, {}, values)


def test_machine_code_is_read_beside_the_manifest_alone(made, monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.cubin").write_bytes(b"code")
    manifest = json.loads((made.folder / "scale.json").read_text())
    for program in manifest["programs"]:
        program["targets"]["sm_90a"]["cubin"] = str(tmp_path / "elsewhere.cubin")
    place = tmp_path / "beside"
    place.mkdir()
    (place / "scale.json").write_text(json.dumps(manifest))
    module, _ = loaded(made, monkeypatch)
    with pytest.raises(FileNotFoundError):
        module.load(place / "scale.json")


def test_a_file_that_was_there_before_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("mine\n")
    vector = px.spec(("m", "n"), px.f32)
    with pytest.raises(px.Error, match=r"CMakeLists\.txt was not written by px\.export: it is not overwritten") as caught:
        px.export(scale[1, 1], vector, vector, 2.0, to=tmp_path)
    assert caught.value.remedy == "export to another folder, or move the file away"
    assert [path.name for path in tmp_path.iterdir()] == ["CMakeLists.txt"]


def test_what_an_export_wrote_is_written_anew_unless_somebody_changed_it(tmp_path: Path) -> None:
    folder = ExportFolder(tmp_path)
    folder.write("a.c", "one\n")
    folder.write("hub/b.toml", b"two\n")
    again = ExportFolder(tmp_path)
    assert again.write("a.c", "three\n") == "a.c" and (tmp_path / "a.c").read_text() == "three\n"
    (tmp_path / "hub" / "b.toml").write_text("changed\n")
    with pytest.raises(px.Error, match=r"b\.toml was changed since px\.export wrote it"):
        ExportFolder(tmp_path).claim(["a.c", "hub/b.toml"])


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a.c": 3}'])
def test_a_listing_that_says_nothing_claims_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / LISTING).write_text(content)
    (tmp_path / "a.c").write_text("mine\n")
    with pytest.raises(px.Error, match=r"was not written by px\.export"):
        ExportFolder(tmp_path).claim(["a.c"])


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine\n")
    (tmp_path / "a.c").symlink_to(tmp_path / "target")
    with pytest.raises(px.Error, match=r"a\.c was not written by px\.export"):
        ExportFolder(tmp_path).write("a.c", "ours\n")
    assert (tmp_path / "target").read_text() == "mine\n"
