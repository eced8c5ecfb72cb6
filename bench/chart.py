"""Charts as SVG, written by hand: points for methods, lines over time.

Decides how figures look. Must not know what they mean.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from typing import Final

WIDTH: Final = 860
HEIGHT: Final = 480
LEFT: Final = 70
RIGHT: Final = 170
TOP: Final = 50
BOTTOM: Final = 50
BAR_HEIGHT: Final = 16
NAMES_WIDTH: Final = 430
DECADES_MIN: Final = 1
COLOURS: Final = ("#999999", "#d1495b", "#edae49", "#00798c", "#6a4c93", "#2e933c")
"""Grey for what is there without any balancer, then told apart by the colour-blind too."""


@dataclass(frozen=True, slots=True)
class Axis:
    """From where to where, in plain figures."""

    title: str
    low: float
    high: float
    unit: str = ""

    def share(self, value: float) -> float:
        """Where a value lies between the ends, within 0 and 1."""
        return min(1.0, max(0.0, (value - self.low) / ((self.high - self.low) or 1.0)))

    def ticks(self) -> list[float]:
        """Five to ten round figures."""
        rough = (self.high - self.low or 1.0) / 6
        power = 10.0 ** floor(log10(rough))
        step = next(f * power for f in (1.0, 2.0, 5.0, 10.0) if f * power >= rough)
        first = ceil(self.low / step - 1e-9)
        return [at * step for at in range(first, floor(self.high / step + 1e-9) + 1)]


def axis(title: str, values: Iterable[float], unit: str = "", low: float | None = 0.0) -> Axis:
    """An axis that holds all values, from zero on unless told otherwise."""
    listed = list(values) or [0.0, 1.0]
    bottom = min(listed) if low is None else low
    return Axis(title, bottom, max([*listed, bottom + 1e-9]) * 1.05, unit)


def points(
    title: str, x: Axis, y: Axis, series: Mapping[str, Sequence[tuple[float, float]]]
) -> str:
    """Small points for each case, and a large one with a name for each method's mean."""
    drawn = []
    for colour, found in zip(COLOURS, series.values(), strict=False):
        faint = f'r="2.5" fill="{colour}" fill-opacity="0.35"'
        drawn += [_dot(x, y, one, faint) for one in found]
        if found:
            mean = (sum(a for a, _ in found) / len(found), sum(b for _, b in found) / len(found))
            drawn.append(_dot(x, y, mean, f'r="8" fill="{colour}"'))
    return _page(title, x, y, drawn, list(series))


def lines(
    title: str,
    x: Axis,
    y: Axis,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    mark: tuple[float, str] | None = None,
) -> str:
    """A line for each series, and an upright one for a moment worth a name."""
    drawn = []
    for colour, found in zip(COLOURS, series.values(), strict=False):
        path = " ".join(f"{_across(x, a):.1f},{_up(y, b):.1f}" for a, b in found)
        drawn.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.3" points="{path}"/>'
        )
    if mark is not None:
        at = _across(x, mark[0])
        drawn.append(
            f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" '
            f'stroke="black" stroke-dasharray="4 3"/>'
            f'<text x="{at + 5:.1f}" y="{TOP + 12}">{escape(mark[1])}</text>'
        )
    return _page(title, x, y, drawn, list(series))


def save(path: Path, svg: str) -> None:
    """Write it where asked, folder and all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg, encoding="utf-8")


def _across(x: Axis, value: float) -> float:
    return LEFT + x.share(value) * (WIDTH - LEFT - RIGHT)


def _up(y: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - y.share(value) * (HEIGHT - TOP - BOTTOM)


def _dot(x: Axis, y: Axis, at: tuple[float, float], look: str) -> str:
    return f'<circle cx="{_across(x, at[0]):.1f}" cy="{_up(y, at[1]):.1f}" {look}/>'


def _page(title: str, x: Axis, y: Axis, drawn: Sequence[str], names: Sequence[str]) -> str:
    view = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="15">{escape(title)}</text>',
    ]
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    for value in x.ticks():
        at = _across(x, value)
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{bottom}" stroke="#eee"/>'
            f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle">{value:g}{x.unit}</text>'
        )
    for value in y.ticks():
        at = _up(y, value)
        parts.append(
            f'<line x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#eee"/>'
            f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{value:g}{y.unit}</text>'
        )
    along = f'x="{(LEFT + right) / 2}" y="{HEIGHT - 12}" text-anchor="middle"'
    upright = f'transform="translate(16 {(TOP + bottom) / 2}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {along}>{escape(x.title)}</text>")
    parts.append(f"<text {upright}>{escape(y.title)}</text>")
    parts += drawn
    for row, (colour, name) in enumerate(zip(COLOURS, names, strict=False)):
        at = TOP + 16 + row * 20
        parts.append(
            f'<circle cx="{right + 16}" cy="{at - 4}" r="5" fill="{colour}"/>'
            f'<text x="{right + 28}" y="{at}">{escape(name)}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def bars(title: str, found: Sequence[tuple[str, float]]) -> str:
    """A bar for each ratio on a logarithmic scale, to the right of one when it is better."""
    reach = max([DECADES_MIN, *[ceil(abs(log10(ratio)) - 1e-9) for _, ratio in found]])
    width, height = WIDTH, TOP + BAR_HEIGHT * len(found) + BOTTOM
    room = width - NAMES_WIDTH - 60
    one = NAMES_WIDTH + room / 2
    view = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="10" y="28" font-size="15">{escape(title)}</text>',
    ]
    for power in range(-reach, reach + 1):
        at = one + power / reach * room / 2
        parts.append(
            f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{height - BOTTOM}" stroke="#ddd"/>'
            f'<text x="{at:.1f}" y="{height - BOTTOM + 16}" text-anchor="middle">'
            f"{10.0**power:g}</text>"
        )
    for number, (name, ratio) in enumerate(found):
        at, length = TOP + number * BAR_HEIGHT, log10(ratio) / reach * room / 2
        colour = COLOURS[3] if ratio >= 1.0 else COLOURS[1]
        parts.append(
            f'<text x="{NAMES_WIDTH - 8}" y="{at + 12}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{one + min(0.0, length):.1f}" y="{at + 2}" width="{abs(length):.1f}" '
            f'height="{BAR_HEIGHT - 4}" fill="{colour}"/>'
            f'<text x="{one + max(0.0, length) + 4:.1f}" y="{at + 12}">{ratio:.3g}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"
