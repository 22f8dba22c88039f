"""What a results file must say about where it came from; the same for `phalanx bench`."""

from phalanx.tools.bench.results import commit, gpu, save, stamp

__all__ = ["commit", "gpu", "save", "stamp"]
