"""The torch that this package needs."""

from __future__ import annotations

from phalanx.errors import Error, caller_location, extra_of_ours, pip_install

OLDEST = (2, 6)


def require_torch() -> None:
    """Raises `px.Error` where torch is missing or too old."""
    try:
        import torch
    except ImportError:
        raise Error(
            "px.torch needs torch, which is not installed", location=caller_location(),
            remedy=pip_install(extra_of_ours("torch")),
        ) from None
    version = torch.__version__
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise Error(
            f"px.torch needs torch 2.6 or newer, this is {version}", location=caller_location(),
            remedy=pip_install("torch>=2.6"),
        )
