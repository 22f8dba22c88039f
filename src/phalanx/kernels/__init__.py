"""The library: functions on whole arrays (torch, CuPy, NumPy), each on top of kernels written in the language.

Arrays on a GPU run there, on the current stream; NumPy arrays run in the simulator.
"""

from phalanx.kernels.cross_entropy import cross_entropy
from phalanx.kernels.norms import layer_norm, rms_norm
from phalanx.kernels.softmax import log_softmax, softmax

__all__ = ["cross_entropy", "layer_norm", "log_softmax", "rms_norm", "softmax"]
