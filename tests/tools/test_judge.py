"""The judge of drawn shapes: what it says of results that are met, short, wrong or missing, and of those that are kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import judge
from phalanx.tools.bench import scripts

ROOT = Path(__file__).resolve().parents[2]
Change = Callable[[list[dict[str, Any]]], None]


def drawn(count: int, ratio: float, **more: Any) -> list[dict[str, Any]]:
    return [{"ratio": ratio, "sizes": {"columns": 512}, **more} for _ in range(count)]


def test_a_line_is_met_with_what_is_asked() -> None:
    asked = judge.Asked("matmul", "burst", 40, 1.04, 0.85, 0.05)
    rows = [*drawn(38, 1.06), *drawn(2, 0.86)]
    assert judge.verdict(asked, rows) == judge.Verdict(
        "matmul, burst, 40", "mean 1.049 (asked 1.04), lowest 0.860 (asked 0.85), 5.0% below 0.95 (asked 5%)", "met"
    )


@pytest.mark.parametrize(
    ("change", "said", "found"),
    [
        (lambda rows: [row.update(ratio=1.03) for row in rows], "SHORT", "mean 1.030 (asked 1.04)"),
        (lambda rows: rows[0].update(ratio=0.849), "SHORT", "lowest 0.849 (asked 0.85)"),
        (lambda rows: [row.update(ratio=0.94) for row in rows[:3]], "SHORT", "7.5% below 0.95 (asked 5%)"),
        (lambda rows: rows.pop(), "missing", "39 of 40 cases"),
        (lambda rows: rows[7].pop("ratio"), "WRONG", "1 of 40 cases have a wrong result"),
    ],
)
def test_a_line_is_short_by_any_of_them(change: Change, said: str, found: str) -> None:
    rows = drawn(40, 1.10)
    assert judge.verdict(judge.Asked("matmul", "burst", 40, 1.04, 0.85, 0.05), rows).said == "met"
    change(rows)
    line = judge.verdict(judge.Asked("matmul", "burst", 40, 1.04, 0.85, 0.05), rows)
    assert line.said == said and found in line.found


def test_short_rows_count_in_the_mean_alone() -> None:
    asked = judge.Asked("softmax", "burst", 20, 0.90, 0.80, columns=256)
    short = {"sizes": {"columns": 255}, "ratio": 0.5}
    assert judge.verdict(asked, [*drawn(19, 1.0), short]).said == "met"
    assert judge.verdict(asked, [*drawn(19, 1.0), {**short, "sizes": {"columns": 256}}]).said == "SHORT"
    assert judge.verdict(asked, [*drawn(19, 0.91), short]).said == "SHORT", "by the mean"


def run_of(**changed: dict[str, float]) -> dict[str, dict[str, float]]:
    fine = {"softmax": {"ratio": 1.0, "new_us": 20.0}, "attention": {"ratio": 0.5, "new_us": 59.0}}
    return {name: {**row, **changed.get(name, {})} for name, row in fine.items()} | {"quantize": {"new_us": 10.0}}


def test_the_host_has_a_line_for_each_kind_of_call() -> None:
    found = list(judge.host_verdicts([run_of()] * 5))
    assert found == [
        judge.Verdict("host, repeated", "mean 0.71 of torch's time (asked 1.0), softmax 1.00 (asked 1.4), 5 runs", "met"),
        judge.Verdict(
            "host, new shapes",
            "attention 59.0 us (asked 60; 59.0, 59.0, 59.0, 59.0, 59.0), 20.0 the median one, 5 runs", "met",
        ),
    ]  # fmt: skip
    for changed, said in (
        ({"softmax": {"ratio": 1.3}, "attention": {"ratio": 0.9}}, ["SHORT", "met"]),
        ({"softmax": {"ratio": 1.41}}, ["SHORT", "met"]),
        ({"attention": {"new_us": 60.1}}, ["met", "SHORT"]),
    ):
        assert [line.said for line in judge.host_verdicts([run_of(**changed)] * 5)] == said


def test_one_slow_run_of_a_host_is_outvoted() -> None:
    slow = run_of(attention={"new_us": 80.0})
    assert [line.said for line in judge.host_verdicts([run_of()] * 3 + [slow] * 2)] == ["met", "met"]
    assert [line.said for line in judge.host_verdicts([run_of()] * 2 + [slow] * 3)] == ["met", "SHORT"]
    assert [line.said for line in judge.host_verdicts([slow] * 4)] == ["missing", "missing"], "four runs are too few"
    alone = {name: {"new_us": row["new_us"]} for name, row in run_of().items()}
    assert [line.said for line in judge.host_verdicts([alone] * 5)] == ["missing"], "measured without a GPU"


def test_an_empty_folder_has_no_line(tmp_path: Path) -> None:
    found, commits = judge.judge(tmp_path)
    assert {line.said for line in found} == {"missing"} and len(found) == len(judge.ASKED) + 2 and not commits


def test_every_file_names_its_commit(tmp_path: Path) -> None:
    for name, commit in (("anywhere_fp8", "aa"), ("gemm_steady", "aa"), ("anywhere_large", "cc")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"machine": {"commit": commit}, "rows": []}))
    (tmp_path / "host_calls_run2.json").write_text(json.dumps({"machine": {"commit": "bb"}, "calls": run_of()}))
    found, commits = judge.judge(tmp_path)
    assert commits == {"aa": ["anywhere_fp8", "gemm_steady"], "bb": ["host_calls_run2"]}, "files of other names are not read"
    assert [line.title for line in found[-2:]] == ["host, repeated", "host, new shapes"]


def test_what_is_kept_has_every_line() -> None:
    """Whether it is met is for a GPU to say; but a figure that the documentation gives is there, and of a right result."""
    found, commits = judge.judge(ROOT / "benchmarks" / "results")
    assert {line.said for line in found} <= {"met", "SHORT"} and commits
    assert [line.title for line in found if line.title.startswith("host")] == ["host, repeated", "host, new shapes"]


def test_a_seed_is_eight_digits_of_the_commit() -> None:
    assert judge.digits_of("0a1b2c3d") == judge.digits_of("0a1b2c3d4e5f") == "0a1b2c3d"
    for named in ("0a1b2c3", "unknown"):
        with pytest.raises(SystemExit) as ended:
            judge.digits_of(named)
        assert str(ended.value) == (
            f"the commit is known as {named!r}; eight digits of it are a seed: PHALANX_COMMIT=$(git rev-parse HEAD)"
        )


def test_each_part_writes_what_is_read(tmp_path: Path) -> None:
    known = judge.commands(tmp_path, "0a1b2c3d")
    hosts = [f"host_calls_run{n}" for n in range(1, 6)]
    written = [Path(command[-1]).stem for command in known.values()]
    assert sorted(written) == sorted([*(f"anywhere_{part}" for part in judge.DRAWN), "gemm_steady", *hosts])
    for command in known.values():
        assert command[-2] == "--json" and f"benchmarks.{command[0]}" in scripts(ROOT)

    def seeds(part: str) -> list[str]:
        return known[part][known[part].index("--seed") + 1 : known[part].index("--count")]

    assert seeds("rows") == seeds("index") == ["0a1b2c3d"]
    assert [*seeds("steady1"), *seeds("steady2")] == seeds("matmul") == ["0", "1", "2", "0a1b2c3d"], "every seed once"
