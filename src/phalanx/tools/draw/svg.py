"""A little SVG: rectangles, lines and text, the same bytes for the same picture, in colours for light and dark pages."""

from __future__ import annotations

from html import escape

FONT = "ui-sans-serif, system-ui, sans-serif"
STYLE = """\
.px-svg { --ink: var(--px-ink, #1f2328); --faint: var(--px-faint, #d0d7de); --paper: var(--px-paper, #ffffff); }
@media (prefers-color-scheme: dark) {
  .px-svg { --ink: var(--px-ink, #e6edf3); --faint: var(--px-faint, #3d444d); --paper: var(--px-paper, #0d1117); }
}
.px-svg text { font-family: FONT; fill: var(--ink); }
.px-svg .on { fill: #1f2328; }
.px-svg .grid { stroke: var(--faint); stroke-width: 1; }
.px-svg .wait { fill: none; stroke: var(--faint); stroke-dasharray: 3 2; }
""".replace("FONT", FONT)
"""A page that has the picture in its own text sets --px-ink and its kin; a picture alone follows the reader's system."""


class Canvas:
    """Shapes in the order in which they are drawn."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.shapes: list[str] = []
        self.width = self.height = 0.0

    def grow(self, x: float, y: float) -> None:
        """Makes room up to a point."""
        self.width, self.height = max(self.width, x), max(self.height, y)

    def box(self, x: float, y: float, w: float, h: float, fill: str = "", *, kind: str = "", hint: str = "") -> None:
        """A rectangle; `hint` shows under the pointer."""
        self.grow(x + w, y + h)
        look = f' fill="{fill}"' if fill else ""
        named = f' class="{kind}"' if kind else ""
        inner = f"><title>{escape(hint)}</title></rect>" if hint else "/>"
        self.shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="2"{look}{named}{inner}')

    def text(
        self, x: float, y: float, words: str, *, size: float = 11, anchor: str = "start", on: bool = False
    ) -> None:
        """Words; `on` is for those that stand on a coloured box."""
        if anchor == "start":
            self.grow(x + 0.62 * size * len(words), y + 0.4 * size)
        named = ' class="on"' if on else ""
        place = f'x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"'
        self.shapes.append(f"<text {place}{named}>{escape(words)}</text>")

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draws a faint line."""
        self.grow(max(x1, x2), max(y1, y2))
        self.shapes.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="grid"/>')

    def svg(self) -> str:
        """The file's text."""
        width, height = round(self.width + 8), round(self.height + 8)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="px-svg" role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">\n<title>{escape(self.title)}</title>\n<style>{STYLE}</style>'
        )
        return "\n".join([head, *self.shapes, "</svg>"]) + "\n"


def shade(number: int, count: int, *, strength: float = 0.62) -> str:
    """One of `count` light colours that differ, around the circle; black text can stand on each."""
    hue = number / count * 360
    return _hsl(hue, strength, 0.74 if number % 2 else 0.82)


def _hsl(hue: float, saturation: float, lightness: float) -> str:
    """A colour as #rrggbb."""
    reach = saturation * min(lightness, 1 - lightness)

    def channel(n: int) -> int:
        k = (n + hue / 30) % 12
        return round(255 * (lightness - reach * max(-1.0, min(k - 3, 9 - k, 1.0))))

    return f"#{channel(0):02x}{channel(8):02x}{channel(4):02x}"
