"""`px.tune`: searching the configurations of a kernel, in processes of their own."""

from phalanx.runtime.tuning.result import Row, Tuned
from phalanx.runtime.tuning.search import tune

__all__ = ["Row", "Tuned", "tune"]
