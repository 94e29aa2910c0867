# SPDX-License-Identifier: Apache-2.0
"""Line plots as SVG, for scripts/bench: the standard library has none, and a few lines are enough."""
import html
import math
import pathlib

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 16, 46
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#8c564b", "#e377c2")


def ticks(low: float, high: float) -> list[float]:
    """About five round numbers from low to high."""
    if high <= low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= next(f for f in (1, 2, 5, 10) if (high - low) / (step * f) <= 5)
    first = math.ceil(low / step)
    return [n * step for n in range(first, int(high / step + 1e-9) + 1)]


def svg(points: list[dict]) -> str:
    """One plot of figures that share plot["file"]; y starts at 0, x is logarithmic where it spans a factor of 50."""
    series: dict[str, list[tuple[float, float]]] = {}
    for figure in points:
        series.setdefault(figure["plot"]["series"], []).append((figure["plot"]["x"], figure["value"]))
    xs = [x for line in series.values() for x, _ in line]
    top = max(y for line in series.values() for _, y in line) * 1.05 or 1
    log = min(xs) > 0 and max(xs) >= 50 * min(xs)

    def place_x(x: float) -> float:
        low, high, at = (math.log(v) for v in (min(xs), max(xs), x)) if log else (min(xs), max(xs), x)
        return LEFT + (WIDTH - LEFT - RIGHT) * (at - low) / ((high - low) or 1)

    def place_y(y: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / top

    height = HEIGHT + 16 * len(series)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>']
    for y in ticks(0, top):
        out.append(f'<path d="M{LEFT} {place_y(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(f'<text x="{LEFT - 6}" y="{place_y(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in sorted(set(xs)) if log else ticks(min(xs), max(xs)):
        out.append(f'<text x="{place_x(x):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    out.append(f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="black" fill="none"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">{html.escape(points[0]["plot"]["x_label"])}</text>')
    out.append(f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">{html.escape(points[0]["unit"])}</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}" for x, y in sorted(line))
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = HEIGHT + 16 * i
        out.append(f'<path d="M{LEFT} {y}h20" stroke="{colour}" stroke-width="2"/>')
        out.append(f'<text x="{LEFT + 26}" y="{y + 4}">{html.escape(name)}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def write(points: list[dict], folder: pathlib.Path) -> None:
    """Writes FILE.svg for each plot that the points are of."""
    files: dict[str, list[dict]] = {}
    for figure in points:
        files.setdefault(figure["plot"]["file"], []).append(figure)
    for name, its in files.items():
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.svg").write_text(svg(its))
