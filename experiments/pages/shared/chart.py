"""Charts as SVG: small multiples with points, intervals and lines. The same values give the same bytes."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 250, 190  # of a panel's plot, in pixels
LEFT, RIGHT, TOP, BOTTOM = 56, 14, 26, 46  # around it
ROW = 20  # height of a line of the legend
INK, GRID = "#333333", "#dddddd"


@dataclass(frozen=True)
class Style:
    """How a series is drawn; shape: circle, square, triangle or diamond. Hollow points are others' values."""

    name: str
    colour: str
    shape: str = "circle"
    hollow: bool = False
    dashed: bool = False
    width: float = 1.5  # of lines


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    style: Style
    low: float | None = None  # of y's interval
    high: float | None = None
    size: float = 4


@dataclass(frozen=True)
class Line:
    points: Sequence[tuple[float, float]]
    style: Style


@dataclass(frozen=True)
class Segments:
    """Straight lines from point to point, which need not touch each other."""

    ends: Sequence[tuple[tuple[float, float], tuple[float, float]]]
    style: Style


@dataclass(frozen=True)
class Axis:
    """From `low` to `high`. `names`: texts at the values; without them ticks are round numbers. bare: there are no ticks."""

    label: str
    low: float
    high: float
    log: bool = False
    names: dict[float, str] = field(default_factory=dict)
    bare: bool = False

    def part(self, value: float) -> float:
        """0 at the low end, 1 at the high end; what lies outside is moved to the end."""
        low, high, at = (
            (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        )
        return min(1.0, max(0.0, (at - low) / (high - low)))

    def ticks(self) -> list[tuple[float, str]]:
        if self.names or self.bare:
            return sorted(self.names.items())
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            powers = [10.0**power for power in range(first, last + 1)]
            values = (
                powers if len(powers) > 1 else [m * 10.0**p for p in range(first - 1, last + 1) for m in (1, 2, 5)]
            )
            return [(v, f"{v:g}") for v in values if self.low * 0.999 <= v <= self.high * 1.001]
        step = round_step((self.high - self.low) / 5)
        first = math.ceil(self.low / step - 1e-9)
        count = math.floor(self.high / step + 1e-9) - first
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        return [((first + i) * step, f"{(first + i) * step:.{decimals}f}".replace("-", "−")) for i in range(count + 1)]


@dataclass(frozen=True)
class Panel:
    title: str
    x: Axis
    y: Axis
    marks: Sequence[Point | Line | Segments]


def round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten, at least `step`."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= step * (1 - 1e-9))


def around(values: Sequence[float], log: bool = False) -> tuple[float, float]:
    """The ends of an axis that shows all values, with some room."""
    low, high = min(values), max(values)
    if log:
        return low / 1.3, high * 1.3
    room = 0.06 * (high - low) or 1
    return low - room, high + room


def chart(title: str, panels: Sequence[Panel], legend: Sequence[Style], columns: int) -> str:
    """The panels in rows of this many columns, the legend under them. `title` is for readers who do not see it."""
    columns = min(columns, len(panels))
    cell_width, cell_height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    rows = math.ceil(len(panels) / columns)
    width = columns * cell_width
    entries = _legend(legend, rows * cell_height, width)
    height = rows * cell_height + ROW * (1 + max(row for row, _ in entries)) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11" fill="{INK}">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for index, panel in enumerate(panels):
        lines += _panel(panel, index % columns * cell_width + LEFT, index // columns * cell_height + TOP)
    return "\n".join([*lines, *(text for _, text in entries), "</svg>"]) + "\n"


def _legend(styles: Sequence[Style], top: int, width: int) -> list[tuple[int, str]]:
    """Each entry's row and its elements."""
    entries, at, row = [], LEFT, 0
    for style in styles:
        length = 38 + 6.4 * len(style.name)
        if at + length > width and at > LEFT:
            at, row = LEFT, row + 1
        y = top + ROW * row + 10
        sample = _line([(at - 9, y), (at + 9, y)], style) if style.dashed else _shape(at, y, style, 4)
        entries.append((row, f"{sample}{_text(at + 14, y + 4, style.name)}"))
        at += length
    return entries


def _panel(panel: Panel, left: int, top: int) -> list[str]:
    def x(value: float) -> float:
        return left + WIDTH * panel.x.part(value)

    def y(value: float) -> float:
        return top + HEIGHT * (1 - panel.y.part(value))

    lines = [_text(left + WIDTH / 2, top - 9, panel.title, "middle", bold=True)]
    for value, text in panel.y.ticks():
        lines.append(_segment(left, y(value), left + WIDTH, y(value), GRID))
        lines.append(_text(left - 5, y(value) + 4, text, "end"))
    for value, text in panel.x.ticks():
        lines.append(_segment(x(value), top + HEIGHT, x(value), top + HEIGHT + 4, INK))
        lines.append(_text(x(value), top + HEIGHT + 16, text, "middle"))
    lines.append(f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="{INK}"/>')
    lines.append(_text(left + WIDTH / 2, top + HEIGHT + 32, panel.x.label, "middle"))
    middle = top + HEIGHT / 2
    turned = f'transform="rotate(-90 {left - 42} {middle:.1f})"'
    lines.append(_text(left - 42, middle, panel.y.label, "middle", more=" " + turned))
    for mark in panel.marks:
        if isinstance(mark, Line):
            lines.append(_line([(x(a), y(b)) for a, b in mark.points], mark.style))
            continue
        if isinstance(mark, Segments):
            ends = " ".join(f"M{x(a):.1f} {y(b):.1f}L{x(c):.1f} {y(d):.1f}" for (a, b), (c, d) in mark.ends)
            lines.append(f'<path d="{ends}" fill="none" {_stroke(mark.style)}/>')
            continue
        if mark.low is not None and mark.high is not None:
            lines.append(_segment(x(mark.x), y(mark.low), x(mark.x), y(mark.high), mark.style.colour))
        lines.append(_shape(x(mark.x), y(mark.y), mark.style, mark.size))
    return lines


def _text(x: float, y: float, text: str, anchor: str = "start", bold: bool = False, more: str = "") -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}{more}>{escape(text)}</text>'


def _segment(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def _line(points: Sequence[tuple[float, float]], style: Style) -> str:
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{at}" fill="none" {_stroke(style)}/>'


def _stroke(style: Style) -> str:
    dash = ' stroke-dasharray="5 3"' if style.dashed else ""
    return f'stroke="{style.colour}" stroke-width="{style.width:g}"{dash}'


def _shape(x: float, y: float, style: Style, size: float) -> str:
    paint = f'fill="{"white" if style.hollow else style.colour}" stroke="{style.colour}"'
    if style.shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size:.1f}" {paint}/>'
    corners = {
        "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
        "triangle": [(0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
        "diamond": [(0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)],
    }[style.shape]
    at = " ".join(f"{x + size * a:.1f},{y + size * b:.1f}" for a, b in corners)
    return f'<polygon points="{at}" {paint}/>'
