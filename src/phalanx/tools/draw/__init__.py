"""Pictures as SVG: layouts of tiles, rings of stages and timelines of a modelled run. No package is needed for them."""

from phalanx.tools.draw.layouts import register_picture, shared_picture
from phalanx.tools.draw.timeline import ring_picture, timeline_picture

__all__ = ["register_picture", "ring_picture", "shared_picture", "timeline_picture"]
