"""Results files: JSON that says on which card, driver, date and commit it was made."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from phalanx.errors import Error


def commit() -> str:
    """The commit of the checkout; `PHALANX_COMMIT` where there is no repository (a copied tree)."""
    if os.environ.get("PHALANX_COMMIT"):
        return os.environ["PHALANX_COMMIT"]
    try:
        return subprocess.run(
            ["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=True,
            cwd=Path(__file__).resolve().parent,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def gpu() -> dict[str, Any]:
    """Card and driver, empty without a GPU."""
    try:
        line = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"],
            capture_output=True, text=True, check=True,
        ).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return {}
    name, driver, power = (part.strip() for part in line.split(","))
    return {"card": name, "driver": driver, "power_limit": power}


def stamp() -> dict[str, Any]:
    """Card, driver, date, commit, Python."""
    return {
        **gpu(),
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
    }


def save(path: Path | None, results: dict[str, Any]) -> None:
    """Writes a results file with its stamp."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": stamp(), **results}, indent=1) + "\n")


def load(path: Path) -> dict[str, Any]:
    """A results file with a stamp and rows."""
    try:
        data = json.loads(path.read_text())
        if isinstance(data["machine"], dict) and isinstance(data["rows"], list):
            return data
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise Error(
        f"{path} is no results file", remedy="name a JSON file that phalanx bench wrote"
    )
