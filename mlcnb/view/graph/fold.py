"""Large graphs made small: groups, chains and repeats become one, and last the middle is left out.

    groups    a fused group becomes one node
    chains    conv2d -> add -> relu becomes one node of three lines; a second product begins anew
    runs      the same, with as many products as fit in eight lines
    repeats   twelve equal layers in a row become one, in a frame "× 12"
    ends      the first and the last nodes, and between them one that says how many there are

Each is done only where the graph is still larger than it may be. What was searched for is never
joined with anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from mlcnb.view.graph.kinds import heaviest
from mlcnb.view.graph.model import Cluster, Edge, Model, Node
from mlcnb.view.words import count, plural

#: lines in the label of one joined node
CHAIN = 8
#: nodes of an overview by stages
STAGED = 24


def fold(model: Model, most: int) -> Model:
    """The graph with at most `most` nodes, as little folded as that takes."""
    steps: tuple[Callable[[Model, int], Model], ...] = (groups, chains, runs, repeats, ends)
    for step in steps:
        if len(model.nodes) <= most:
            break
        model = step(model, most)
    return model


def overview(model: Model, most: int) -> Model:
    """A network of images by stages, each the operators of one size of image; others as `fold`."""
    if len(model.nodes) > STAGED:
        found = _in_rows(stages(model), _is_light_tail)
        if sum(is_stage(n) for n in found.nodes) >= 3 and len(found.nodes) <= STAGED:
            return found
    return fold(model, most)


def _is_light_tail(chain: list[Node], node: Node) -> bool:
    return _is_light(chain, node) and not is_stage(chain[-1])


def is_stage(node: Node) -> bool:
    """Whether a node stands for the operators of one size of image."""
    return node.folded and node.lines[0].startswith("at ")


def stages(model: Model) -> Model:
    """Operators in a row whose images have one size as one node; what only moves data (a pad, a
    change of layout) goes with what comes after it.
    """
    sizes = {edge.source: _image(edge.label) for edge in model.edges}
    rows: list[tuple[str, list[Node]]] = []
    moved: list[Node] = []
    for node in model.nodes:
        at = sizes.get(node.id, "")
        if node.found or node.sort in ("input", "output") or not at:
            moved = []
            continue
        moved.append(node)
        if node.sort == "movement":
            continue
        if rows and rows[-1][0] == at and rows[-1][1][-1].id == moved[0].id - 1:
            rows[-1][1].extend(moved)
        else:
            rows.append((at, moved))
        moved = []
    joined = _join(replace(model, clusters=[]), [nodes for _, nodes in rows])
    told = {nodes[-1].members: _stage(at, nodes) for at, nodes in rows if len(nodes) > 1}
    sums = {_sums(nodes)["members"]: told[nodes[-1].members] for _, nodes in rows if len(nodes) > 1}
    nodes = [replace(n, lines=sums.get(n.members, n.lines)) for n in joined.nodes]
    return replace(joined, nodes=nodes)


def _image(label: str) -> str:
    """Height and width in a label `1×32×112×112 f32`, of channels first or in blocks."""
    sizes = label.split(" ")[0].split("×")
    plain = len(sizes) in (4, 5) and all(x.isdigit() for x in sizes)
    return "×".join(sizes[2:4]) if plain else ""


def _stage(at: str, nodes: list[Node]) -> tuple[str, ...]:
    """Size of the image and how many operators, then the most frequent ones."""
    names = Counter(n.lines[0] for n in nodes)
    told = [f"{name} ×{times}" if times > 1 else name for name, times in names.most_common(4)]
    return f"at {at}: {plural(len(nodes), 'operator')}", *told


def groups(model: Model, most: int) -> Model:
    """Each fused group as one node (frames of branches are dropped)."""
    members: dict[int, list[Node]] = {}
    for node in model.nodes:
        if node.cluster is not None:
            members.setdefault(node.cluster, []).append(node)
    small = (nodes for nodes in members.values() if len(nodes) <= 4 * CHAIN)
    joined = [nodes for nodes in small if not any(n.found for n in nodes)]
    return _join(replace(model, clusters=[]), joined)


def chains(model: Model, most: int) -> Model:
    """Nodes in a row that only feed each other as one, each with one product at its head."""
    return _in_rows(model, _is_light)


def runs(model: Model, most: int) -> Model:
    """Nodes in a row that only feed each other as one."""
    return _in_rows(model, _has_room)


def _has_room(chain: list[Node], node: Node) -> bool:
    return len(chain) < CHAIN


def _is_light(chain: list[Node], node: Node) -> bool:
    return _has_room(chain, node) and node.sort != "product"


def _in_rows(model: Model, joins: Callable[[list[Node], Node], bool]) -> Model:
    users: dict[int, set[int]] = {}
    makers: dict[int, set[int]] = {}
    for edge in model.edges:
        users.setdefault(edge.source, set()).add(edge.target)
        makers.setdefault(edge.target, set()).add(edge.source)
    chain_of: dict[int, list[Node]] = {}
    for node in model.nodes:
        if node.found or node.sort in ("input", "output"):
            continue
        before = makers.get(node.id, set())
        maker = next(iter(before)) if len(before) == 1 else -1
        chain = chain_of.get(maker, [])
        if not (chain and len(users[maker]) == 1 and joins(chain, node)):
            chain = []
        chain.append(node)
        chain_of[node.id] = chain
    distinct = {id(chain): chain for chain in chain_of.values()}
    return _join(model, distinct.values())


def _join(model: Model, sets: Iterable[list[Node]]) -> Model:
    """Each set of nodes as one node, in the place of its last."""
    into: dict[int, int] = {}
    made: dict[int, Node] = {}
    for nodes in sets:
        last = nodes[-1].id
        into.update((n.id, last) for n in nodes)
        made[last] = nodes[0] if len(nodes) == 1 else _joined(nodes)
    kept = [made.get(n.id, n) for n in model.nodes if into.get(n.id, n.id) == n.id]
    kept = [replace(n, cluster=None) for n in kept] if not model.clusters else kept
    return _renumbered(model, kept, into)


def _joined(nodes: list[Node]) -> Node:
    lines = tuple(_short(n) for n in nodes)
    if len(lines) > CHAIN:
        lines = (*lines[: CHAIN - 1], f"and {len(lines) - CHAIN + 1} more")
    return replace(
        nodes[-1],
        lines=lines,
        sort=heaviest(n.sort for n in nodes),
        folded=True,
        kernel=all(n.kernel for n in nodes),
        **_sums(nodes),
    )


def _sums(nodes: list[Node]) -> dict[str, Any]:
    """What nodes that become one are together."""
    return {
        "size": sum(n.size for n in nodes),
        "amount": sum(n.amount for n in nodes),
        "members": tuple(m for n in nodes for m in n.members),
    }


def _short(node: Node) -> str:
    """A node as one line of another one's label."""
    if node.folded:
        return f"{node.lines[0]} …"
    return " ".join(node.lines) if len(node.lines) == 2 else node.lines[0]


def _renumbered(model: Model, kept: list[Node], into: dict[int, int]) -> Model:
    """The nodes that are kept with new numbers, and the edges between them, each once."""
    number = {n.id: i for i, n in enumerate(kept)}
    edges: dict[Edge, None] = {}
    for edge in model.edges:
        source, target = (number[into.get(n, n)] for n in (edge.source, edge.target))
        if source != target:
            back = edge.back or target < source
            edges.setdefault(Edge(source, target, edge.label, back))
    nodes = [replace(n, id=i) for i, n in enumerate(kept)]
    return Model(model.name, nodes, list(edges), model.clusters, model.paints)


def repeats(model: Model, most: int) -> Model:
    """Equal parts in a row as one part in a frame that says how often."""
    while len(model.nodes) > most:
        found = _longest_repeat(model.nodes)
        if found is None:
            break
        model = _once(model, *found)
    return model


def _longest_repeat(nodes: list[Node]) -> tuple[int, int, int] | None:
    """(start, length, times) of the repeat that saves the most nodes."""
    names: dict[tuple, int] = {}
    apart = (n.cluster is not None or n.found for n in nodes)
    keys = [(n.id,) if alone else (n.sort, n.lines) for n, alone in zip(nodes, apart, strict=True)]
    tokens = np.array([names.setdefault(key, len(names)) for key in keys])
    best = (1, 0, 0, 0)
    for length in range(2, len(nodes) // 2 + 1):
        same = tokens[:-length] == tokens[length:]
        edges = np.flatnonzero(np.diff(np.concatenate(([0], same.astype(np.int8), [0]))))
        for start, stop in zip(edges[::2], edges[1::2], strict=True):
            times = int(stop - start) // length + 1
            best = max(best, ((times - 1) * length, -length, -int(start), times))
    saved, length, start, times = best
    return None if saved <= 1 else (-start, -length, times)


def _once(model: Model, start: int, length: int, times: int) -> Model:
    """The first of the equal parts, framed; the others point to it."""
    number = len(model.clusters)
    clusters = [*model.clusters, Cluster(number, f"× {times}")]
    into = {start + length * turn + i: start + i for turn in range(1, times) for i in range(length)}
    kept = [n for n in model.nodes if n.id not in into]
    for place in range(start, start + length):
        copies = model.nodes[place : start + length * times : length]
        kept[place] = replace(copies[0], cluster=number, folded=True, **_sums(copies))
    return _renumbered(replace(model, clusters=clusters), kept, into)


def ends(model: Model, most: int) -> Model:
    """The first and the last nodes; one in the middle stands for the rest."""
    half = max(1, (most - 1 - sum(n.found for n in model.nodes)) // 2)
    middle = model.nodes[half : len(model.nodes) - half]
    gone = [n for n in middle if not n.found]
    if not gone:
        return model
    sums = _sums(gone)
    words = (f"{plural(len(gone), 'node')} more", f"{count(sums['size'])} operators")
    gap = Node(gone[0].id, "other", words, folded=True, **sums)
    into = {n.id: gap.id for n in gone}
    kept = [gap if n is gone[0] else n for n in model.nodes if n is gone[0] or n.id not in into]
    folded = _renumbered(model, kept, into)
    at = kept.index(gap)
    folded.edges = [replace(e, label="") if _touches(e, at) else e for e in folded.edges]
    folded.edges = list(dict.fromkeys(folded.edges))
    return folded


def _touches(edge: Edge, node: int) -> bool:
    return node in (edge.source, edge.target)
