"""A laid-out graph as SVG: small, escaped, and nothing in it that runs, links or loads.

Elements: svg, title, style, rect, path, text, g. Sorts of nodes differ by shape and by colour (a
legend says which is which); a kernel has bars at its sides, what stands for several has a dashed
border. On white paper with text of high contrast, so that it reads on any page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from html import escape
from math import ceil

from mlcnb.view.graph.kinds import LOOKS
from mlcnb.view.graph.layout import LINE, Placed, Point
from mlcnb.view.graph.model import Model, Node
from mlcnb.view.svg import number as _n
from mlcnb.view.words import visible

#: points: width of a character of the labels of edges, room around, height of the legend
SMALL = 6.0
MARGIN = 8.0
LEGEND = 26.0
#: points: a picture that is higher is cut into columns side by side, so wide together, so far apart
TALL, WIDE, GAP = 440.0, 900.0, 20.0
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
_STYLE = (
    f".mlcnb text{{font-family:{_FONT};font-size:11px;fill:#1b1f24;text-anchor:middle}}"
    ".mlcnb .b{font-weight:bold}.mlcnb .s{font-size:10px}"
    ".mlcnb .l{font-size:10px;fill:#3d444d;text-anchor:start}"
    ".mlcnb .l,.mlcnb .h{paint-order:stroke;stroke:#ffffff;stroke-width:3px}"
    ".mlcnb .e{fill:none;stroke:#57606a}.mlcnb .d{stroke-dasharray:4 3}"
    ".mlcnb .a{fill:#57606a}"
    ".mlcnb .c{fill:#f6f8fa;stroke:#8c959f}.mlcnb .p{fill:#f6f8fa}"
    ".mlcnb .h{text-anchor:start;font-size:10px;font-weight:bold;fill:#3d444d;"
    "stroke:#f6f8fa;stroke-width:5px}"
)
Tip = Callable[[Node], str] | None


def draw(model: Model, placed: Placed, title: str, tip: Tip = None) -> str:
    """The picture. `tip` gives the text that hovering over a node shows."""
    legend = _legend(model)
    wide = placed.width + _overhang(model, placed)
    columns = _columns(placed, wide)
    drawn = (
        [_part(model, placed, tip, (0.0, placed.height), MARGIN)]
        if len(columns) == 1
        else [
            _column(model, placed, tip, rows, MARGIN + number * (wide + GAP), wide)
            for number, rows in enumerate(columns)
        ]
    )
    width = max(len(columns) * (wide + GAP) - GAP, legend[1]) + 2 * MARGIN
    height = max(bottom - top for top, bottom in columns) + 2 * MARGIN + LEGEND
    size = f'width="{_n(width)}" height="{_n(height)}" viewBox="0 0 {_n(width)} {_n(height)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="mlcnb" role="img" {size}>',
        f"<title>{_text(title)}</title><style>{_STYLE}{_looks(model)}</style>",
        f'<rect width="{_n(width)}" height="{_n(height)}" fill="#ffffff"/>',
        legend[0],
        *drawn,
        "</svg>",
    ]
    return "".join(parts)


def _part(model: Model, placed: Placed, tip: Tip, rows: Point, left: float) -> str:
    """What stands between two heights, moved to its place."""
    inside = (
        *(frame for frame, _ in _clusters(model, placed, rows)),
        *_edges(model, placed, rows),
        *(title for _, title in _clusters(model, placed, rows)),
        *(_node(n, placed, tip) for n in model.nodes if _within(placed.nodes[n.id][1], rows)),
    )
    return f'<g transform="translate({_n(left)} {_n(MARGIN + LEGEND)})">{"".join(inside)}</g>'


def _column(model: Model, placed: Placed, tip: Tip, rows: Point, left: float, wide: float) -> str:
    """A part of a tall picture in a window of its own: lines that go on are cut at its edges."""
    top, bottom = rows
    inside = _part(model, placed, tip, rows, 0.0).replace(
        f"translate(0 {_n(MARGIN + LEGEND)})", f"translate(0 {_n(-top)})", 1
    )
    size = _n(wide + 4), _n(bottom - top + 4)
    at = f'x="{_n(left - 2)}" y="{_n(MARGIN + LEGEND - 2)}"'
    window = f'width="{size[0]}" height="{size[1]}" viewBox="-2 -2 {size[0]} {size[1]}"'
    return f"<svg {at} {window}>{inside}</svg>"


def _columns(placed: Placed, wide: float) -> list[Point]:
    """From which height to which each column goes: one, unless the picture is tall and narrow.

    It is cut above a node, where no other node and no frame stands.
    """
    count = min(int((WIDE + GAP) // (wide + GAP)), ceil(placed.height / TALL))
    if count < 2:
        return [(0.0, placed.height)]
    boxes = [(y - h / 2 - 4, y + h / 2 + 4) for _, y, _, h in placed.nodes.values()]
    boxes += [(top - 4, bottom + 4) for _, top, _, bottom in placed.clusters.values()]
    free = [low - 10 for low, _ in sorted(boxes) if not any(a < low - 10 < b for a, b in boxes)]
    cuts = [0.0]
    for number in range(1, count):
        wanted = placed.height * number / count
        near = [x for x in free if cuts[-1] + TALL / 3 < x < placed.height - TALL / 6]
        if near:
            cuts.append(min(near, key=lambda x: abs(x - wanted)))
    return list(zip(cuts, [*cuts[1:], placed.height], strict=True))


def _within(y: float, rows: Point) -> bool:
    return rows[0] <= y <= rows[1]


def _overhang(model: Model, placed: Placed) -> float:
    """Room at the right for labels that the layout knows nothing of."""
    free = (e for n, e in enumerate(model.edges) if placed.edges[n][1] is None)
    return max((len(e.label) * SMALL for e in free), default=0.0)


def _text(text: str) -> str:
    return escape(visible(text), quote=True)


def _sorts(model: Model) -> list[str]:
    """The sorts that occur, in the order of the legend."""
    return [s for s in LOOKS if any(n.sort == s for n in model.nodes) or _is_legend(s, model)]


def _is_legend(sort: str, model: Model) -> bool:
    """Whether the legend draws its boxes in the style of this sort."""
    return sort == "input" and (bool(model.paints) or any(n.found for n in model.nodes))


def _looks(model: Model) -> str:
    """The colours of the sorts that occur."""
    rules = ((s, LOOKS[s].fill, LOOKS[s].ink) for s in _sorts(model))
    looks = [f".mlcnb .{s}{{fill:{fill};stroke:{ink}}}" for s, fill, ink in rules]
    looks += [f".mlcnb .p{i}{{fill:{paint.fill}}}" for i, paint in enumerate(model.paints)]
    found = ".mlcnb .f{stroke:#0b5cad;stroke-width:3px}"
    return "".join([*looks, *([found] if any(n.found for n in model.nodes) else [])])


def _legend(model: Model) -> tuple[str, float]:
    """A row of small shapes with words, and how wide it is."""
    x, parts = MARGIN, []
    for shape, style, words in _entries(model):
        path = _SHAPES[shape](x, MARGIN, 22.0, 12.0)
        parts.append(f'<path class="{style}" d="{path}"/>')
        parts.append(f'<text class="l" x="{_n(x + 26)}" y="{_n(MARGIN + 9)}">{_text(words)}</text>')
        x += 26 + len(words) * SMALL + 14
    return "".join(parts), x


def _entries(model: Model) -> Iterable[tuple[str, str, str]]:
    """Shape, class and words of each entry of the legend: colours where there are some."""
    if not model.paints:
        yield from ((LOOKS[s].shape, s, LOOKS[s].words) for s in _sorts(model))
    for number, paint in enumerate(model.paints):
        if paint.words and any(n.paint == number for n in model.nodes):
            yield "box", f"input p{number}", paint.words
    if any(n.found for n in model.nodes):
        yield "box", "input f", "found"


def _clusters(model: Model, placed: Placed, rows: Point) -> Iterable[tuple[str, str]]:
    """Frames and their titles, outer ones first; titles stand before the lines that go in."""
    for cluster in model.clusters:
        if cluster.id not in placed.clusters:
            continue
        left, top, right, bottom = placed.clusters[cluster.id]
        if not _within(top, rows):
            continue
        size = f'width="{_n(right - left)}" height="{_n(bottom - top)}"'
        frame = f'<rect class="c" x="{_n(left)}" y="{_n(top)}" {size} rx="5"/>'
        at = f'x="{_n(left + 6)}" y="{_n(top + 14)}"'
        paper = f'x="{_n(left + 4)}" y="{_n(top + 4)}" height="13"'
        wide = min(6.1 * len(cluster.title) + 4, right - left - 8)
        title = f'<text class="h" {at}>{_text(cluster.title)}</text>'
        yield frame, f'<rect class="p" {paper} width="{_n(wide)}"/>{title}'


def _edges(model: Model, placed: Placed, rows: Point) -> Iterable[str]:
    """All lines as one path, all tips as another, then the labels."""
    lines: dict[bool, list[str]] = {False: [], True: []}
    tips, labels = [], []
    for number, edge in enumerate(model.edges):
        points, at = placed.edges[number]
        if max(y for _, y in points) < rows[0] or min(y for _, y in points) > rows[1]:
            continue
        lines[edge.back].append(_curve(points[:-1]))
        tips.append(_tip(points[-2], points[-1]))
        if edge.label and _within((at or points[len(points) // 2])[1], rows):
            labels.append(_edge_label(edge.label, at, points))
    for back, drawn in lines.items():
        if drawn:
            yield f'<path class="e{" d" if back else ""}" d="{"".join(drawn)}"/>'
    if tips:
        yield f'<path class="a" d="{"".join(tips)}"/>'
    yield from labels


def _edge_label(label: str, at: Point | None, points: list[Point]) -> str:
    """The label around its place, or right of the middle of the line where it was given none."""
    if at is None:
        middle = points[len(points) // 2]
        at = middle[0] + 4 + len(label) * SMALL / 2, middle[1]
    x = at[0] - len(label) * SMALL / 2
    return f'<text class="l" x="{_n(x)}" y="{_n(at[1] + 3)}">{_text(label)}</text>'


def _curve(points: list[Point]) -> str:
    start, *rest = (f"{_n(x)} {_n(y)}" for x, y in points)
    return f"M{start}C{' '.join(rest)}" if len(rest) >= 3 else f"M{start}L{' '.join(rest)}"


def _tip(base: Point, tip: Point) -> str:
    """A triangle that ends at `tip`."""
    dx, dy = tip[0] - base[0], tip[1] - base[1]
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    back = (tip[0] - 6 * ux, tip[1] - 6 * uy)
    corners = (tip, (back[0] - 3 * uy, back[1] + 3 * ux), (back[0] + 3 * uy, back[1] - 3 * ux))
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in corners) + "Z"


def _node(node: Node, placed: Placed, tip: Callable[[Node], str] | None) -> str:
    """Shape, label, and the text that hovering shows."""
    x, y, width, height = placed.nodes[node.id]
    left, top = x - width / 2, y - height / 2
    path = _SHAPES[LOOKS[node.sort].shape](left, top, width, height)
    if node.kernel:
        path += _bars(left, top, width, height)
    style = node.sort + (" d" if node.folded else "")
    style += "" if node.paint is None else f" p{node.paint}"
    style += " f" if node.found else ""
    shown = [f'<path class="{style}" d="{path}"/>', *_label(node, x, y)]
    if tip is not None:
        shown.insert(0, f"<title>{_text(tip(node))}</title>")
        shown = [f"<g>{''.join(shown)}</g>"]
    return "".join(shown)


def _label(node: Node, x: float, y: float) -> Iterable[str]:
    first = y - (len(node.lines) - 1) * LINE / 2 + 4
    for number, line in enumerate(node.lines):
        style = "b" if number == 0 else "s"
        at = f'x="{_n(x)}" y="{_n(first + number * LINE)}"'
        yield f'<text class="{style}" {at}>{_text(line)}</text>'


def _polygon(*points: Point) -> str:
    return "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y in points) + "Z"


def _box(x: float, y: float, w: float, h: float) -> str:
    return f"M{_n(x)} {_n(y)}h{_n(w)}v{_n(h)}h{_n(-w)}Z"


def _rounded(x: float, y: float, w: float, h: float, r: float = 5.0) -> str:
    corner = f"a{_n(r)} {_n(r)} 0 0 1 "
    return (
        f"M{_n(x + r)} {_n(y)}h{_n(w - 2 * r)}{corner}{_n(r)} {_n(r)}v{_n(h - 2 * r)}"
        f"{corner}{_n(-r)} {_n(r)}h{_n(2 * r - w)}{corner}{_n(-r)} {_n(-r)}v{_n(2 * r - h)}"
        f"{corner}{_n(r)} {_n(-r)}Z"
    )


def _stadium(x: float, y: float, w: float, h: float) -> str:
    return _rounded(x, y, w, h, min(w, h) / 2)


def _slanted(x: float, y: float, w: float, h: float, s: float = 6.0) -> str:
    return _polygon((x + s, y), (x + w, y), (x + w - s, y + h), (x, y + h))


def _hexagon(x: float, y: float, w: float, h: float, s: float = 6.0) -> str:
    middle = y + h / 2
    return _polygon(
        (x + s, y), (x + w - s, y), (x + w, middle), (x + w - s, y + h), (x + s, y + h), (x, middle)
    )


def _funnel(x: float, y: float, w: float, h: float, s: float = 7.0) -> str:
    return _polygon((x, y), (x + w, y), (x + w - s, y + h), (x + s, y + h))


def _octagon(x: float, y: float, w: float, h: float) -> str:
    s = min(6.0, h / 3)
    return _polygon(
        *((x + s, y), (x + w - s, y), (x + w, y + s), (x + w, y + h - s)),
        *((x + w - s, y + h), (x + s, y + h), (x, y + h - s), (x, y + s)),
    )


def _bars(x: float, y: float, w: float, h: float) -> str:
    """Lines beside the edges left and right: the mark of a kernel."""
    inset = 8.0
    return f"M{_n(x + inset)} {_n(y)}v{_n(h)}M{_n(x + w - inset)} {_n(y)}v{_n(h)}"


_SHAPES: dict[str, Callable[[float, float, float, float], str]] = {
    "box": _box,
    "rounded": _rounded,
    "stadium": _stadium,
    "slanted": _slanted,
    "hexagon": _hexagon,
    "funnel": _funnel,
    "octagon": _octagon,
}
