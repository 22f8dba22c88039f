"""matplotlib, where it is installed."""

from __future__ import annotations

from typing import Any

from phalanx.errors import Error, extra_of_ours, pip_install


def pyplot() -> Any:
    """matplotlib without a display; an error with a remedy where it is missing."""
    try:
        import matplotlib
    except ImportError:
        raise Error(
            "a plot needs matplotlib, which is not installed",
            remedy=pip_install(extra_of_ours("bench")),
        ) from None
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "phalanx"  # the same picture gives the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt

    return plt
