"""Device functions and structs of the generated text, as the files that write them hand them over."""

from __future__ import annotations

from phalanx.frozen import frozen


@frozen
class Helper:
    """A device function (or struct) of the generated text, written once before the kernel if anything uses it."""

    name: str
    text: str
    needs: tuple[Helper, ...] = ()
