"""Fits the models of `phalanx.machines.h200` to recorded times; shows how near the constants in use and fitted ones come.

    python -m benchmarks.products.fit_h200 [--rounds 3] [--write]

No GPU is needed. What is read of `results/`: the files of `SWEEPS` (`sweep_products.py`: drawn products, each with some
configurations, behind another launch like it or, with few rows, cold; `sweep_families.json` has both times) for
`warm_split`, and those of `WITH_RESTS` for `middle_tiles` and `few_tiles`; twelve products of
`sweep_short.json` for `short_tiles`; sections 6, 22 and 23 of `h200_tuning.txt` (`small_m.py --sweep`: 36 shapes with four
configurations, the rings of 15; cold), the `small_m*.json` files and the cold times of the sweeps for `split`. To refit on
a card: run these sweeps there, with more shapes, put what they write in these places, and run this with `--write`, which
puts the fitted constants into `machines/h200.json`.

A fit lowers the mean square of the logarithm of predicted over measured, of tiles with all constants at once, else one
constant at a time, by factors, within limits: few shapes do not determine all constants. Of tiles every product counts the
same, its fast configurations more than its slow ones, and what all its configurations have in common little: choices are
what matters. The figures of a set of constants: the typical error, which is the mean factor between predicted and measured,
less 1; and `regret`, how much longer the configuration with the best prediction takes than the fastest one that was
measured, on average over the shapes: what choices cost. Both are also shown for a fit to half of the shapes, judged by the
other half. Constants that no recorded time depends on stay as they are.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks import ROOT
from benchmarks.common.cards import text_of
from phalanx.kernels.products.matmul_config import MatmulConfig, Problem
from phalanx.kernels.products.matmul_cuts import PANEL
from phalanx.kernels.products.split_config import SplitConfig, predicted_all
from phalanx.kernels.products.split_config import tabled as split_table
from phalanx.kernels.products.tile_model import costs_of, predicted_tiles, sizes_of, tabled
from phalanx.machines.h200 import H200
from phalanx.runtime.device.devices import Device

RESULTS = ROOT / "benchmarks" / "results"
CARD_FILE = ROOT / "src" / "phalanx" / "machines" / "h200.json"
CARD = Device(H200.name, "sm_90a", H200.sms, H200.l2_bytes, H200.shared_bytes(), None)
FIXED = (
    "weights_in_flight", "weights_in_flight_beside_rows", "short_ring_factor", "short_rows_factor", "missing_rows_factor",
    "kept_from", "kept_bytes", "latency_missed", "finds_kept", "sharpness",
)
SPLIT_LIMITS = {
    "hbm_sm": (34e3, 48e3), "l2_sm": (70e3, 300e3), "zero_fill": (15e3, 90e3), "unaligned_factor": (1.0, 1.6),
    "odd_factor": (1.0, 2.6), "across_factor": (0.9, 1.5), "sharing": (0.05, 2.0), "latency": (0.1, 3.0),
    "hbm": (3.2e6, 4.9e6), "tensor": (5.5e6, 7.2e6), "single_group_factor": (0.8, 1.3),
}
TILE_FIXED = (
    "margin", "pair_margin", "streamed_readers", "streamed_from", "trimmed_waves", "longest_row", "lacking_steps",
    "shortest_part", "most_parts", "split_results", "split_above", "most_sharing", "split_margin", "cold_parts",
    "alone_factor", "cold", "cold_waits", "cold_pushes", "broken_lines", "turned_tiles", "uneven_steps", "wasted",
    "stored_steps", "spilled_steps",
)
SWEEPS = (
    "sweep_products.json", "sweep_ragged.json", "sweep_parts.json", "sweep_families.json", "sweep_drawn.json",
    "sweep_few.json", "sweep_across.json", "sweep_delivered.json", "sweep_behind.json", "sweep_changed.json",
)
AS_NOW = ("sweep_across.json", "sweep_delivered.json", "sweep_cold.json", "sweep_behind.json", "sweep_changed.json")
"""Of these, those in which what lies across K was fetched as it is now."""
WITH_RESTS = ("sweep_drawn.json", "sweep_few.json", *AS_NOW)
"""Of these, those whose blocks had rests between them, so that clocks do not differ: what smaller products are fitted to."""
SHORT = ("sweep_short.json",)
"""Products in 8 bits along a short K: twelve in many configurations, then what was chosen before and since,
of these and of others."""
SHORT_FITTED = 12
"""Of these, the first ones, to which `SHORT_TILES` are fitted."""
LATER = ("sweep_few.json", *AS_NOW)
"""Of these, those that count twice where tiles are fitted: their kernels have longer rings than those of `sweep_drawn.json`,
and small tiles take some 5% less time beside large ones than there."""
TILE_LIMITS = {
    "delivered_rate": (60.0, 400.0), "l2_rate_alone": (50.0, 130.0),
    "read_together": (0.001, 0.5), "read_together_broken": (0.001, 0.5), "unaligned_factor": (1.0, 3.0),
    "odd_factor": (1.0, 3.0), "latency": (50.0, 1500.0), "latency_missed": (50.0, 1500.0), "held_stages": (1.0, 2.0),
    "zero_fill": (16.0, 45.0), "zero_fill_shared": (8.0, 45.0), "hbm_unasked": (0.001, 2.0), "step_in_pair": (2.0, 60.0),
    "step_in_four": (2.0, 60.0), "step_shared_columns": (1.0, 60.0), "clock": (1600.0, 1800.0), "launch": (1.0, 4.0),
    "split": (500.0, 8000.0), "sums_rate": (10.0, 80.0), "hbm": (3.2e6, 4.7e6), "kept_bytes": (42e6, 60e6),
    "hbm_in_four": (0.88, 1.05), "epilogue": (50.0, 2500.0), "epilogue_rate": (5.0, 40.0), "further_part": (1.0, 1000.0),
}
"""Where physics or other measurements say what is possible; other constants move by `LIMIT`."""
COMMON = 0.15
"""How much an error counts that all configurations of a product share."""
STEEP = 4.0
"""How fast the weight of a configuration falls with the time that it takes longer than the best."""
FACTORS = (1.3, 1.1, 1.03, 1.01)
TOWARDS = 0.02
"""How much it counts that a constant is another than before, by its logarithm."""
MOVE = 1e-3
"""Of logarithms of constants, for differences."""
LIMIT = 2.0
WORDS = {"st": "stages", "g": "groups", "p": "pieces"}
SPLIT = r"\d+x\d+ s\d+ st\d+(?: (?:bk|cn|cm|ahead|parts|g|p|lag)-?\d+| reuse| HALF| stagger| nohint)*"


class Sample(NamedTuple):
    """A measured time in microseconds, of one configuration of one shape, and whether the operands lie along K."""

    shape: tuple[int, ...]
    config: Any
    us: float
    by_k: tuple[bool, bool] = (True, True)


Model = Callable[[list[Sample], Any], list[float]]


def section(number: str) -> list[str]:
    """The lines of a section of the notes."""
    text = (RESULTS / "h200_tuning.txt").read_text()
    return re.split(r"^== ", text.split(f"\n== {number}. ")[1], maxsplit=1, flags=re.MULTILINE)[0].splitlines()


def split_config(text: str) -> SplitConfig | None:
    """The inverse of `small_m.short`; see `recorded_split`."""
    tile, split, *words = text.split()
    bm, bn = map(int, tile.split("x"))
    settings: dict[str, Any] = {"pieces": int(split[1:])}
    for word in words:
        name, number = re.fullmatch(r"([A-Za-z]+)(-?\d*)", word).groups()  # type: ignore[union-attr]
        if number:
            settings[WORDS.get(name, name)] = int(number)
        else:
            settings |= {"hints": False} if name == "nohint" else {name.lower(): True}
    return recorded_split({"bm": bm, "bn": bn, "split": int(split[1:]), **settings})


def recorded_split(settings: dict[str, Any]) -> SplitConfig | None:
    """A configuration as it was recorded, or None where the kernel has none such any more.

    Older ones say how many products were in flight when a stage was released, where a cluster began along K, and whether L2
    had hints: the model knows nothing of these. Partial sums in 16 bits, and parts of a stage, took other memory.
    """
    if settings.get("half") or settings.get("parts", 1) > 1:
        return None
    gone = "lag", "half", "parts", "stagger", "hints"
    return SplitConfig(**{name: value for name, value in settings.items() if name not in gone})


def split_samples() -> Iterator[Sample]:
    """Cold times of `split_ring`."""
    shape: tuple[int, ...] = ()
    for line in [*section("6"), *section("22"), *section("23")]:
        if found := re.match(r"\((\d+), (\d+), (\d+)\)", line):
            shape = tuple(map(int, found.groups()))
        for text, us in re.findall(rf"({SPLIT}):? +(\d+\.\d+)", line):
            if (config := split_config(text)) is not None:
                yield Sample(shape, config, float(us))
    for row in json.loads((RESULTS / "small_m.json").read_text())["rows"]:
        if row["cold"] and (config := recorded_split(row["config"])) is not None:
            yield Sample(tuple(row["shape"]), config, row["us"])
    yield from swept_splits(cold=True)


def swept(sweeps: tuple[str, ...]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Products of the sweeps, and what was timed of them by kernels that fetch as they do now.

    Before `sweep_across.json`, what lies across K came in whole panels for each CTA, even if fewer columns were multiplied.
    """
    for name in sweeps:
        for product in json.loads((RESULTS / name).read_text())["products"]:
            a_by_k, b_by_k = product["problem"]["by_k"]
            rows = []
            for row in product["rows"]:
                config = row["config"]
                if row["kind"] == "tiles":
                    by_k = a_by_k if config.get("swapped", False) else b_by_k
                    columns, ctas = config.get("bn", MatmulConfig.bn), config.get("cluster", MatmulConfig.cluster)[0]
                else:
                    by_k = a_by_k if row["kind"] == "rows" else b_by_k
                    columns, ctas = config["bm"], config.get("cn", 1)
                in_panels = by_k or columns % (ctas * PANEL) == 0
                if in_panels or (name in AS_NOW and not row.get("before", False)):
                    rows.append(row)
            yield {**product, "sweep": name}, rows


def swept_splits(*, cold: bool, sweeps: tuple[str, ...] = SWEEPS) -> Iterator[Sample]:
    """Times of `split_ring` of the sweeps, with nothing in L2 or behind another launch like it."""
    for product, rows in swept(sweeps):
        problem = product["problem"]
        m, n, k, by_k = problem["m"], problem["n"], problem["k"], tuple(problem["by_k"])
        name = "us" if product.get("cold", False) == cold else "cold_us" if cold else ""
        for row in (row for row in rows if row["kind"] != "tiles" and name in row):
            shape, lies = ((m, n, k), by_k) if row["kind"] == "rows" else ((n, m, k), by_k[::-1])
            if (config := recorded_split(row["config"])) is not None:
                yield Sample(shape, config, row[name], lies)


class Measured(NamedTuple):
    """A product, and its configurations of tiles with their times in microseconds and their weights, 1 in all."""

    problem: Problem
    cold: bool
    configs: tuple[MatmulConfig, ...]
    us: Any
    weights: Any
    suited: bool
    counts: float = 1.0


def tile_samples(sweeps: tuple[str, ...] = SWEEPS) -> list[Measured]:
    """Times of `matmul_tiles`."""
    found = []
    for product, timed in swept(sweeps):
        rows = [row for row in timed if row["kind"] == "tiles" and "us" in row and not row["config"].get("turns", False)]
        if not rows:
            continue
        configs = tuple(config_of(row["config"]) for row in rows)
        problem = Problem(**{**product["problem"], "by_k": tuple(product["problem"]["by_k"])})
        us = np.array([row["us"] for row in rows])
        weights = np.exp(-STEEP * (us / us.min() - 1)) + 0.03
        suited = product.get("suited", "cold" not in product)  # those of `sweep_cold.json` say neither
        cold, counts = product.get("cold", False), 2.0 if product["sweep"] in LATER else 1.0
        found.append(Measured(problem, cold, configs, us, weights / weights.sum(), suited, counts))
    return found


def config_of(recorded: dict[str, Any]) -> MatmulConfig:
    """A configuration as it was recorded, with lists for tuples. Until November 2026 warpgroups could take tiles in turn:
    whoever asks for a configuration has left out those that do."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in recorded.items()}
    fields.pop("turns", None)
    return MatmulConfig(**fields)


def tile_times(product: Measured, costs: Any, chooses: bool = False) -> Any:
    """Predicted microseconds in bursts; of a cold launch with nothing in L2. `chooses`: as a choice counts them, with
    what tiles have outside the result."""
    costs = costs if chooses else replace(costs, wasted=0.0)
    if product.cold:
        costs = replace(costs, kept_bytes=1, launch=costs.launch + costs.cold)
    return predicted_tiles(
        tabled(product.configs, CARD, costs), product.problem, CARD, costs, suits=product.suited,
        keeps=False, sizes=sizes_of(product.problem, costs, found=1.0),
    )


def tile_error(products: list[Measured], costs: Any) -> float:
    """What a fit of tiles lowers."""
    found = tile_residuals(products, costs)
    return float(found @ found)


def tile_residuals(products: list[Measured], costs: Any) -> Any:
    """What `tile_error` is the sum of the squares of."""
    found = []
    for product in products:
        off = np.log(tile_times(product, costs) / product.us)
        middle = float((product.weights * off).sum())
        counts = math.sqrt(product.counts)
        found += [counts * np.sqrt(product.weights) * (off - middle), [counts * math.sqrt(COMMON) * middle]]
    return np.concatenate(found) / math.sqrt(sum(product.counts for product in products))


def fitted_at_once(products: list[Measured], costs: Any, steps: int, fixed: tuple[str, ...] = TILE_FIXED) -> Any:
    """The costs with all constants moved at once, as Levenberg and Marquardt do, from differences; towards those before."""
    names = [name for name in vars(costs) if name not in fixed]
    first = np.log([max(1e-3, float(getattr(costs, name))) for name in names])
    limits = [TILE_LIMITS.get(name, (math.exp(at) / LIMIT, math.exp(at) * LIMIT)) for name, at in zip(names, first)]
    low, high = (np.log([max(1e-3, each[side]) for each in limits]) for side in (0, 1))

    def at(where: Any) -> Any:
        return replace(costs, **{name: float(value) for name, value in zip(names, np.exp(where))})

    def residuals(where: Any) -> Any:
        return np.concatenate([tile_residuals(products, at(where)), TOWARDS * (where - first) / math.sqrt(len(names))])

    now = np.clip(first, low, high)
    found, damping = residuals(now), 1e-2
    for _ in range(steps):
        slopes = np.array([(residuals(now + move) - found) / MOVE for move in MOVE * np.eye(len(names))]).T
        square, gradient = slopes.T @ slopes, slopes.T @ found
        for _ in range(8):
            step = np.linalg.solve(square + damping * np.diag(np.diag(square) + 1e-8), gradient)
            nearer = residuals(moved := np.clip(now - step, low, high))
            if nearer @ nearer < (1 - 1e-5) * (found @ found):
                break
            damping *= 4
        else:
            break
        now, found, damping = moved, nearer, damping / 5
    return at(now)


def tile_figures(products: list[Measured], costs: Any) -> str:
    """The typical error, and the regret."""
    off = [float((each.weights * np.abs(np.log(tile_times(each, costs) / each.us))).sum()) for each in products]
    return f"error {100 * (math.exp(fmean(off)) - 1):5.1f}%   regret {100 * tile_regret(products, costs):4.1f}%"


def tile_regret(products: list[Measured], costs: Any) -> float:
    """How much longer the tiles with the best prediction take than the fastest measured ones, on average."""
    return fmean(tile_regrets(products, costs))


def tile_regrets(products: list[Measured], costs: Any) -> list[float]:
    """How much longer the tiles that the model picks take than the fastest measured ones, of each product."""
    return [each.us[int(np.argmin(tile_times(each, costs, chooses=True)))] / each.us.min() - 1 for each in products]


def report_tiles(title: str, products: list[Measured], costs: Any, rounds: int, fixed: tuple[str, ...]) -> Any:
    """Prints the figures of tiles, of the constants in use and of fitted ones; gives the fitted ones."""

    def best(those: list[Measured]) -> Any:
        return fitted_at_once(those, costs, 4 * rounds, fixed)

    print(f"\n{title}: {sum(len(product.us) for product in products)} times of {len(products)} products")
    print(f"  in use                           {tile_figures(products, costs)}")
    found = best(products)
    print(f"  fitted to all                    {tile_figures(products, found)}")
    for fit, judge in ((products[::2], products[1::2]), (products[1::2], products[::2])):
        told = tile_figures(judge, best(fit))
        print(f"  fitted to half, the other half   {told}   (in use: {tile_figures(judge, costs)})")
    show_constants(costs, found, fixed)
    return found


def show_constants(costs: Any, found: Any, fixed: tuple[str, ...]) -> None:
    """Constants in use, and fitted ones."""
    for name in vars(costs):
        if name not in fixed:
            print(f"  {name:22} {getattr(costs, name):12.4g} -> {getattr(found, name):12.4g}")


def split_model(samples: list[Sample], costs: Any) -> list[float]:
    """Predicted microseconds of the kernel that splits K, all configurations of a shape at once."""
    places: dict[Any, list[int]] = {}
    for place, sample in enumerate(samples):
        places.setdefault((sample.shape, sample.by_k), []).append(place)
    found = [0.0] * len(samples)
    for (shape, by_k), mine in places.items():
        table = split_table(tuple(samples[place].config for place in mine), (costs,))
        m, n, k = shape
        for place, took in zip(mine, predicted_all(table, m, n, k, by_k, (costs,), CARD)[0]):
            found[place] = float(took)
    return found


def deviations(samples: list[Sample], model: Model, costs: Any) -> list[float]:
    """The logarithms of predicted over measured."""
    return [math.log(took / sample.us) for sample, took in zip(samples, model(samples, costs))]


def regret(samples: list[Sample], model: Model, costs: Any) -> float:
    """How much longer the configuration with the best prediction takes than the fastest measured one, over the shapes."""
    lost = []
    took = model(samples, costs)
    for shape in dict.fromkeys(sample.shape for sample in samples):
        measured: dict[Any, list[float]] = {}
        predicted: dict[Any, float] = {}
        for sample, time in zip(samples, took):
            if sample.shape == shape:
                measured.setdefault(sample.config, []).append(sample.us)
                predicted[sample.config] = time
        chosen = min(measured, key=lambda config: predicted[config])
        lost.append(fmean(measured[chosen]) / min(fmean(times) for times in measured.values()) - 1)
    return fmean(lost)


def fitted(
    error: Callable[[Any], float], costs: Any, rounds: int, fixed: tuple[str, ...] = FIXED,
    limits: dict[str, tuple[float, float]] | None = None,
) -> Any:
    """The costs with each constant moved by factors as long as that brings predictions nearer."""
    start, best = costs, error(costs)
    for _ in range(rounds):
        for name, factor in ((name, factor) for factor in FACTORS for name in vars(costs) if name not in fixed):
            first = getattr(start, name)
            low, high = (limits or {}).get(name, (first / LIMIT, first * LIMIT))
            for step in (factor, 1 / factor):
                while low <= (value := getattr(costs, name) * step) <= high:
                    now = error(moved := replace(costs, **{name: value}))
                    if now >= best - 1e-9:
                        break
                    best, costs = now, moved
    return costs


def fitted_to(samples: list[Sample], model: Model, costs: Any, rounds: int) -> Any:
    """The costs fitted to recorded times."""
    error = lambda these: fmean(each * each for each in deviations(samples, model, these))  # noqa: E731
    return fitted(error, costs, rounds, limits=SPLIT_LIMITS)


def figures(samples: list[Sample], model: Model, costs: Any) -> str:
    """The typical error, and the regret."""
    typical = math.exp(fmean(map(abs, deviations(samples, model, costs)))) - 1
    return f"error {100 * typical:5.1f}%   regret {100 * regret(samples, model, costs):4.1f}%"


def report(title: str, samples: list[Sample], model: Model, costs: Any, rounds: int) -> Any:
    """Prints the figures of the constants in use and of fitted ones, then the constants; gives the fitted ones."""
    shapes = list(dict.fromkeys(sample.shape for sample in samples))
    print(f"\n{title}: {len(samples)} times of {len(shapes)} shapes")
    print(f"  in use                           {figures(samples, model, costs)}")
    found = fitted_to(samples, model, costs, rounds)
    print(f"  fitted to all                    {figures(samples, model, found)}")
    halves = [[sample for sample in samples if shapes.index(sample.shape) % 2 == half] for half in (0, 1)]
    for fit, judge in (halves, halves[::-1]):
        told = figures(judge, model, fitted_to(fit, model, costs, rounds))
        print(f"  fitted to half, the other half   {told}   (in use: {figures(judge, model, costs)})")
    show_constants(costs, found, FIXED)
    return found


def written(card: dict[str, Any], group: str, costs: Any) -> None:
    """Puts fitted constants into what a card's file says, three digits of each: of a group like another, those that it
    names."""
    for name, value in vars(costs).items():
        if name in card[group]:
            card[group][name] = float(f"{value:.3g}") if isinstance(value, float) else value


def fixed_of(card: dict[str, Any], group: str) -> tuple[str, ...]:
    """Constants of a group of tiles that are not fitted: of one like another, also those that it takes from there."""
    named = card[group]
    taken = [name for name in vars(getattr(H200, group)) if "like" in named and name not in named]
    return (*TILE_FIXED, *taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="put the fitted constants into the card's file")
    options = parser.parse_args()
    rested = tile_samples(WITH_RESTS)
    card, found = json.loads(CARD_FILE.read_text()), {}
    for group, products in (
        ("few_tiles", rested), ("middle_tiles", rested), ("large_tiles", tile_samples()),
        ("short_tiles", tile_samples(SHORT)[:SHORT_FITTED]),
    ):
        costs = getattr(H200, group)
        mine = [product for product in products if costs_of(product.problem) is costs]
        found[group] = report_tiles(group, mine, costs, options.rounds, fixed_of(card, group))
    cold, warm = list(split_samples()), list(swept_splits(cold=False, sweeps=WITH_RESTS))
    for group, samples in (("split", cold), ("warm_split", warm)):
        found[group] = report(group, samples, split_model, getattr(H200, group), options.rounds)
    if options.write:
        for group, costs in found.items():
            written(card, group, costs)
        CARD_FILE.write_text(text_of(card) + "\n")


if __name__ == "__main__":
    main()
