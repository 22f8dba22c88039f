"""Fits the models of `phalanx.machines.h200` to recorded times; shows how near the constants in use and fitted ones come.

    python benchmarks/fit_h200.py [--rounds 3]

No GPU is needed. What is read of `results/`: section 12 of `h200_tuning.txt` (`matmul.py --sweep`: four products, each with
all tiles; kernels alone, operands in L2) for `TILES`; sections 6, 22 and 23 (`small_m.py --sweep`: 36 shapes with four
configurations, the rings of 15; cold) and the `small_m*.json` files for `SPLIT`. To refit on a card: run these sweeps
there, add what they print to the sections, with more shapes, run this, and write the constants that it shows into
`machines/`.

A fit lowers the mean square of the logarithm of predicted over measured, one constant at a time, by factors, `LIMIT` at
most: few shapes do not determine all constants. Of tiles only ratios count: the clock is what fits best. The figures of a
set of constants: the typical error, which is the mean factor between predicted and measured, less 1; and `regret`, how much
longer the configuration with the best prediction takes than the fastest one that was measured, on average over the shapes:
what choices cost. Both are also shown for a fit to half of the shapes, judged by the other half. Constants of the hardware
(`wgmma_columns`, `shared_rate`) and those that no recorded time depends on stay as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from phalanx.kernels.products.matmul_config import MatmulConfig, Problem, cycles
from phalanx.kernels.products.split_config import SplitConfig, predicted
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device

RESULTS = Path(__file__).resolve().parent / "results"
CARD = Device(H200.name, "sm_90a", H200.sms, H200.l2_bytes, H200.shared_bytes(), None)
FIXED = ("wgmma_columns", "shared_rate", "margin", "weights_in_flight", "weights_in_flight_beside_rows")
FACTORS = (1.3, 1.1, 1.03, 1.01)
LIMIT = 2.0
WORDS = {"st": "stages", "g": "groups", "p": "pieces"}
SPLIT = r"\d+x\d+ s\d+ st\d+(?: (?:bk|cn|cm|ahead|parts|g|p|lag)-?\d+| reuse| HALF| stagger| nohint)*"


class Sample(NamedTuple):
    """A measured time in microseconds, of one configuration of one shape."""

    shape: tuple[int, ...]
    config: Any
    us: float


Model = Callable[[Sample, Any], float]


def section(number: str) -> list[str]:
    """The lines of a section of the notes."""
    text = (RESULTS / "h200_tuning.txt").read_text()
    return re.split(r"^== ", text.split(f"\n== {number}. ")[1], maxsplit=1, flags=re.MULTILINE)[0].splitlines()


def split_config(text: str) -> SplitConfig:
    """The inverse of `small_m.short`."""
    tile, split, *words = text.split()
    bm, bn = map(int, tile.split("x"))
    settings: dict[str, Any] = {"pieces": int(split[1:])}
    for word in words:
        name, number = re.fullmatch(r"([A-Za-z]+)(-?\d*)", word).groups()  # type: ignore[union-attr]
        if number:
            settings[WORDS.get(name, name)] = int(number)
        else:
            settings |= {"hints": False} if name == "nohint" else {name.lower(): True}
    return SplitConfig(bm, bn, int(split[1:]), settings.pop("stages"), **settings)


def split_samples() -> Iterator[Sample]:
    """Cold times of `split_ring`."""
    shape: tuple[int, ...] = ()
    for line in [*section("6"), *section("22"), *section("23")]:
        if found := re.match(r"\((\d+), (\d+), (\d+)\)", line):
            shape = tuple(map(int, found.groups()))
        for config, us in re.findall(rf"({SPLIT}):? +(\d+\.\d+)", line):
            yield Sample(shape, split_config(config), float(us))
    for path in [RESULTS / "small_m.json", *sorted((RESULTS / "other_cards").glob("small_m*.json"))]:
        for row in json.loads(path.read_text())["rows"]:
            if row["cold"]:
                yield Sample(tuple(row["shape"]), SplitConfig(**row["config"]), row["us"])


def tile_samples() -> Iterator[Sample]:
    """Times of `matmul_tiles` with its operands in L2."""
    shape: tuple[int, ...] = ()
    row = r"(\d+) x (\d+), stages (\d+), cluster \((\d), (\d)\) +group (\d+), parts (\d+) +[\d.]+ +([\d.]+)"
    for line in section("12"):
        if found := re.match(r"bf16 (\d+) x (\d+) x (\d+)", line):
            shape = tuple(map(int, found.groups()))
        elif found := re.match(row, line):
            bm, bn, stages, cm, cn, group, parts = map(int, found.groups()[:7])
            config = MatmulConfig(bm, bn, 64, stages, (cm, cn), group, parts, 1 if bm == 64 else 2)
            yield Sample(shape, config, float(found.group(8)))


def split_model(sample: Sample, costs: Any) -> float:
    """Predicted microseconds of the kernel that splits K."""
    return predicted(sample.config, *sample.shape, costs=costs)  # type: ignore[misc]


def tile_model(sample: Sample, costs: Any) -> float:
    """Predicted cycles of tiles."""
    return cycles(Problem(*sample.shape), sample.config, CARD, costs)


def deviations(samples: list[Sample], model: Model, costs: Any, scaled: bool) -> list[float]:
    """The logarithms of predicted over measured; of ratios alone where `scaled`."""
    found = [math.log(model(sample, costs) / sample.us) for sample in samples]
    middle = fmean(found) if scaled else 0.0
    return [each - middle for each in found]


def regret(samples: list[Sample], model: Model, costs: Any) -> float:
    """How much longer the configuration with the best prediction takes than the fastest measured one, over the shapes."""
    lost = []
    for shape in dict.fromkeys(sample.shape for sample in samples):
        measured: dict[Any, list[float]] = {}
        for sample in samples:
            if sample.shape == shape:
                measured.setdefault(sample.config, []).append(sample.us)
        chosen = min(measured, key=lambda config: model(Sample(shape, config, 0.0), costs))
        lost.append(fmean(measured[chosen]) / min(fmean(times) for times in measured.values()) - 1)
    return fmean(lost)


def fitted(samples: list[Sample], model: Model, costs: Any, scaled: bool, rounds: int) -> Any:
    """The costs with each constant moved by factors as long as that brings predictions nearer."""

    def error(these: Any) -> float:
        return fmean(each * each for each in deviations(samples, model, these, scaled))

    start, best = costs, error(costs)
    for _ in range(rounds):
        for name, factor in ((name, factor) for factor in FACTORS for name in vars(costs) if name not in FIXED):
            for step in (factor, 1 / factor):
                while 1 / LIMIT <= (value := getattr(costs, name) * step) / getattr(start, name) <= LIMIT:
                    now = error(moved := replace(costs, **{name: value}))
                    if now >= best - 1e-9:
                        break
                    best, costs = now, moved
    return costs


def figures(samples: list[Sample], model: Model, costs: Any, scaled: bool) -> str:
    """The typical error, and the regret."""
    typical = math.exp(fmean(map(abs, deviations(samples, model, costs, scaled)))) - 1
    return f"error {100 * typical:5.1f}%   regret {100 * regret(samples, model, costs):4.1f}%"


def report(title: str, samples: list[Sample], model: Model, costs: Any, scaled: bool, rounds: int) -> None:
    """Prints the figures of the constants in use and of fitted ones, then the constants."""
    shapes = list(dict.fromkeys(sample.shape for sample in samples))
    print(f"\n{title}: {len(samples)} times of {len(shapes)} shapes")
    print(f"  in use                           {figures(samples, model, costs, scaled)}")
    found = fitted(samples, model, costs, scaled, rounds)
    print(f"  fitted to all                    {figures(samples, model, found, scaled)}")
    halves = [[sample for sample in samples if shapes.index(sample.shape) % 2 == half] for half in (0, 1)]
    for fit, judge in (halves, halves[::-1]):
        told = figures(judge, model, fitted(fit, model, costs, scaled, rounds), scaled)
        print(f"  fitted to half, the other half   {told}   (in use: {figures(judge, model, costs, scaled)})")
    for name in vars(costs):
        if name not in FIXED:
            print(f"  {name:22} {getattr(costs, name):12.4g} -> {getattr(found, name):12.4g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    report("TILES", list(tile_samples()), tile_model, H200.tiles, True, options.rounds)
    report("SPLIT", list(split_samples()), split_model, H200.split, False, options.rounds)


if __name__ == "__main__":
    main()
