"""The H200, read once from `h200.json` when this module is first imported; `import phalanx` does not import it.

`sources` in the file says where the numbers come from; `benchmarks/products/fit_h200.py --write` fits the constants of
tiles and of split K to recorded times anew and writes them there.
"""

from __future__ import annotations

from phalanx.machines.reading import machine

H200 = machine("h200")
