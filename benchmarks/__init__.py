"""Benchmarks, run at the root of a checkout: `python -m benchmarks.rows.gather`. README.md tells what each measures."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The checkout."""
EXAMPLES = ROOT / "examples"
