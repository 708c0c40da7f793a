"""Write docs/growth.md and its pictures from the results that the benchmarks of growth have kept.

python bench/growth/page.py
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from growth.model import model_table
from growth.sections import INTRODUCTION, SECTIONS, Section
from shared import common, growth

DOCS = common.ROOT / "docs"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 300, 60, 16, 190, 40
COLORS = ("#3366cc", "#dc3912", "#109618", "#990099", "#ff9900", "#0099c6", "#7f7f7f")


def main() -> None:
    """Write them."""
    results = growth.results()
    parts = [INTRODUCTION]
    for section in SECTIONS:
        kept = {name: results[name] for name in section.results if name in results}
        parts.append(f"## {section.title}\n\n{section.text}")
        if not kept:
            parts.append(f"Not measured yet: `python bench/growth/{section.script}`.")
        for name, result in kept.items():
            parts += [described(result), table(section, result) if section.drawn else listed(result["rows"])]
            if not section.drawn:
                continue
            picture = DOCS / "pictures" / f"growth-{name}.svg"
            picture.write_text(drawn(section, result) + "\n")
            figures = ", ".join(section.drawn)
            parts.append(f"![{section.title}: {figures}, by {result['size']}](pictures/{picture.name})")
        if section.after:
            parts.append(section.after)
    parts.append(model_table(results))
    (DOCS / "growth.md").write_text("\n\n".join(parts).rstrip() + "\n")
    print("wrote docs/growth.md")


def described(result: growth.Row) -> str:
    """How a result was made."""
    notes = f" {result['notes']}" if result.get("notes") else ""
    return f"```\n{result['command']}\n```\n\nSeed {result['seed']}; {result['machine']}.{notes}"


def table(section: Section, result: growth.Row) -> str:
    """The figures at the sizes, and their slopes; of many sizes some."""
    rows = thinned(result["rows"])
    names = [name for name in rows[-1] if name != result["size"]]
    lines = [
        f"| {result['size']} | " + " | ".join(f"{row[result['size']]:,}" for row in rows) + " | slope | of the last |"
    ]
    lines.append("|---" * (len(rows) + 3) + "|")
    for name in names:
        slopes = (growth.slope(result, name), growth.slope(result, name, growth.LARGEST))
        cells = [*(shown(row.get(name)) for row in rows), *("" if s is None else f"{s:.2f}" for s in slopes)]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def listed(rows: Sequence[growth.Row]) -> str:
    """Rows that are no sizes, side by side."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["".join(f"| {shown(row.get(name))} " for row in rows) for name in names]
    lines = [f"| {name} {line}|" for name, line in zip(names, lines, strict=True)]
    return "\n".join([lines[0], "|---" * (len(rows) + 1) + "|", *lines[1:]])


def thinned(rows: Sequence[growth.Row], most: int = 6) -> Sequence[growth.Row]:
    """Some of many rows, the first and the last among them."""
    places = sorted({round(i * (len(rows) - 1) / (most - 1)) for i in range(most)})
    return rows if len(rows) <= most else [rows[i] for i in places]


def shown(value: object) -> str:
    """A figure with three digits that count."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def drawn(section: Section, result: growth.Row) -> str:
    """An SVG of some figures over the size, both in powers of ten, each with the line of its slope."""
    size = result["size"]
    curves = {
        name: [(row[size], row[name]) for row in result["rows"] if row.get(name, 0) > 0] for name in section.drawn
    }
    curves = {name: points for name, points in curves.items() if points}
    xs, ys = zip(*(point for points in curves.values() for point in points), strict=True)
    across, up = Scale(xs, LEFT, WIDTH - RIGHT), Scale(ys, HEIGHT - BOTTOM, TOP)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           f'font-size="11"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']  # fmt: skip
    for x in across.ticks:
        out.append(line(across(x), TOP, across(x), HEIGHT - BOTTOM, "#ddd"))
        out.append(text(across(x), HEIGHT - BOTTOM + 15, f"{x:,.0f}", "middle"))
    for y in up.ticks:
        out += [line(LEFT, up(y), WIDTH - RIGHT, up(y), "#ddd"), text(LEFT - 5, up(y) + 4, f"{y:g}", "end")]
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, size, "middle"))
    for number, (name, points) in enumerate(curves.items()):
        color, places = COLORS[number % len(COLORS)], [f"{across(x):.1f},{up(y):.1f}" for x, y in points]
        out.append(f'<polyline points="{" ".join(places)}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        out += [f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="2" fill="{color}"/>' for p in places]
        slope = growth.slope(result, name)
        label = name if slope is None else f"{name}: slope {slope:.2f}"
        out.append(text(WIDTH - RIGHT + 10, TOP + 12 + 16 * number, label, "start", color))
    return "\n".join([*out, "</svg>"])


class Scale:
    """Powers of ten along one side of a picture."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        high = max(high, low + 1)
        self._low, self._width, self._start, self._end = low, high - low, start, end
        self.ticks = [10.0**power for power in range(low, high + 1)]

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self._low) / self._width
        return self._start + share * (self._end - self._start)


def line(x: float, y: float, to_x: float, to_y: float, color: str) -> str:
    """A line of SVG."""
    return f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{color}"/>'


def text(x: float, y: float, words: str, anchor: str, color: str = "#333") -> str:
    """A line of text of SVG."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


if __name__ == "__main__":
    main()
