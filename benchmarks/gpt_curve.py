"""The losses of `examples/train_gpt.py` as a picture, and the table of its kernels as text. Needs no GPU.

    python examples/train_gpt.py --table --out train_gpt.json
    PYTHONPATH=src python benchmarks/gpt_curve.py train_gpt.json --plot train_gpt.svg --text train_gpt.txt
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.common.plots import pyplot

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
import step_table

SIDES = {"ours": ("#b2182b", "-"), "torch": ("#1f6eb3", "--")}
LAST = 10
"""Steps whose mean is the loss at the end."""
MANY = 50
"""Steps whose mean says more of the curve."""


def summary(found: dict[str, Any]) -> str:
    """Sizes, losses, speeds and memory, and the tables beside each other."""
    sizes, machine = found["sizes"], found["machine"]
    tokens = found["rows"] * sizes["length"]
    lines = [
        f"{machine.get('card')}, driver {machine.get('driver')}, torch {found['torch_version']}, {machine['date']}, commit "
        f"{machine['commit']}",
        ", ".join(f"{name} {size}" for name, size in sizes.items()) + f"; {tokens:,} tokens a step",
    ]
    ends = {}
    for side in SIDES:
        one = found[side]
        ends[side] = sum(one["losses"][-LAST:]) / len(one["losses"][-LAST:])
        lines.append(
            f"{side}: loss {one['losses'][0]:.4f} at first, {ends[side]:.4f} at step {len(one['losses'])}; "
            f"{one['tokens_per_second']:,.0f} tokens a second, {1e3 * tokens / one['tokens_per_second']:.1f} ms a step, "
            f"{one['gigabytes']:.1f} GB"
        )
    speed = found["ours"]["tokens_per_second"] / found["torch"]["tokens_per_second"]
    lines.append(f"ours beside torch's: loss {100 * (ends['ours'] / ends['torch'] - 1):+.2f}%, {speed:.3f} times the speed")
    if len(found["ours"]["losses"]) > MANY:
        ours, theirs = (sum(found[side]["losses"][-MANY:]) for side in SIDES)
        apart = max(abs(a / b - 1) for a, b in zip(found["ours"]["losses"], found["torch"]["losses"]))
        much = f"over the last {MANY} steps {100 * (ours / theirs - 1):+.2f}%"
        lines.append(f"{much}; a step's losses are {100 * apart:.2f}% apart at most")
    if any("kernels" not in found[side] for side in SIDES):  # trained without --table
        return "\n".join(lines) + "\n"
    lines += ["", step_table.text_of({side: step_table.by_work(found[side]["kernels"]) for side in SIDES})]
    for side in SIDES:
        listed = [row for row in found[side]["kernels"] if step_table.is_kernel(row[0])]
        lines += ["", f"{side}: the longest kernels of a step (ms, launches)"]
        lines += [f"{spent:9.3f} {count:5d}  {name[:96]}" for name, spent, count in listed[:16]]
    return "\n".join(lines) + "\n"


def draw(found: dict[str, Any], target: Path) -> None:
    """Both curves, and by how much they differ."""
    plt = pyplot()
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, height_ratios=(3, 1), layout="constrained")
    for side, (colour, style) in SIDES.items():
        losses = found[side]["losses"]
        above.plot(range(1, len(losses) + 1), losses, style, color=colour, label=side, linewidth=1.2)
    pairs = zip(found["ours"]["losses"], found["torch"]["losses"])
    below.plot([100 * (a / b - 1) for a, b in pairs], color="#444444", linewidth=0.9)
    below.axhline(0, color="#aaaaaa", linewidth=0.6)
    above.set_ylabel("loss")
    below.set_ylabel("ours / torch's - 1, %")
    below.set_xlabel("step")
    above.legend()
    machine = found["machine"]
    above.set_title(f"train_gpt.py on {machine.get('card')}, {machine['date']}, commit {machine['commit']}", fontsize=10)
    figure.savefig(target, **({"metadata": {"Date": None}} if target.suffix == ".svg" else {"dpi": 110}))
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--text", type=Path)
    given = parser.parse_args()
    found = json.loads(given.results.read_text())
    print(summary(found))
    if given.text:
        given.text.write_text(summary(found))
    if given.plot:
        draw(found, given.plot)


if __name__ == "__main__":
    main()
