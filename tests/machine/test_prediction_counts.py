"""Predicted misses of programs of a real size beside those of the exact replay.

The bound that is held: L1 within a factor of 1.25 and L2 within 1.5 (of programs in which lines
fight for few sets: 2 and 2). Measured over this table and 2,000 random nests: half of the
predictions are exact, nineteen in twenty within 1.03.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlcnb import script, te
from mlcnb.machine.cache import Cache, caches
from mlcnb.machine.prediction import predict
from mlcnb.observe.access import replayed
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir.schedule import Schedule
from tests.tir.schedule.programs import conv2d, matmul_relu, padded_pool, softmax, stencil
from tests.tir.schedule.random_steps import scheduled

LEVELS = caches("32K/8way, 1M/16way")
SMALL = caches("2K/4way, 16K/8way")
#: factors of L1 and L2; where strides of a power of two bring lines into few sets
BOUND, CONFLICTS = (1.25, 1.5), (2.0, 2.0)


def counted(func, levels) -> list[int]:
    counts = replayed(func, list(levels)).counts
    return [counts[level.name].misses for level in levels]


def ordered(n: int, order: str) -> Schedule:
    sch = Schedule(matmul(n, n, n))
    loops = dict(zip("ijk", sch.get_loops("C"), strict=True))
    sch.reorder(*(loops[name] for name in order))
    return sch


def tiled(n: int, tile: int) -> Schedule:
    sch = Schedule(matmul(n, n, n))
    split = [sch.split(loop, [None, tile]) for loop in sch.get_loops("C")]
    sch.reorder(*(outer for outer, _ in split), *(inner for _, inner in split))
    return sch


def fused(n: int) -> Schedule:
    sch = Schedule(matmul(n, n, n))
    sch.fuse(*sch.get_loops("C")[:2])
    return sch


def partitioned(n: int, order: str, loop: str, at: int) -> Schedule:
    sch = ordered(n, order)
    sch.loop_partition(sch.get_loops("C")[order.index(loop)], [at, None])
    return sch


def decomposed(n: int) -> Schedule:
    sch = ordered(n, "ikj")
    sch.decompose_reduction("C", sch.get_loops("C")[0])
    return sch


def cached(n: int) -> Schedule:
    sch = tiled(n, 16)
    sch.cache_read(sch.get_block("C"), 1, "global")
    return sch


def transposed(n: int, m: int, tile: int = 0) -> Schedule:
    A = te.placeholder((n, m), name="A")
    sch = Schedule(te.create_prim_func([A, te.compute((m, n), lambda i, j: A[j, i], name="B")]))
    if tile:
        (i, i1), (j, j1) = (sch.split(loop, [None, tile]) for loop in sch.get_loops("B"))
        sch.reorder(i, j, i1, j1)
    return sch


def depthwise(channels: int, size: int, kernel: int) -> Schedule:
    A = te.placeholder((channels, size, size), name="A")
    W = te.placeholder((channels, kernel, kernel), name="W")
    y, x = (te.reduce_axis((0, kernel), name=name) for name in ("ry", "rx"))
    shape = (channels, size - kernel + 1, size - kernel + 1)
    D = te.compute(
        shape, lambda c, i, j: te.sum(A[c, i + y, j + x] * W[c, y, x], axis=[y, x]), name="D"
    )
    return Schedule(te.create_prim_func([A, W, D]))


CASES = {
    **{
        f"{n} {order}": partial(ordered, n, order)
        for n in (64, 96, 100)
        for order in map("".join, permutations("ijk"))
    },
    "128 ijk": lambda: ordered(128, "ijk"),
    "128 ikj": lambda: ordered(128, "ikj"),
    "128 jki": lambda: ordered(128, "jki"),
    "tiles of 16": lambda: tiled(96, 16),
    "tiles of 20": lambda: tiled(100, 20),
    "tiles of 32 in 100: the last ones are cut": lambda: tiled(100, 32),
    "tiles of 8": lambda: tiled(128, 8),
    "fused": lambda: fused(96),
    "a part of k": lambda: partitioned(100, "ijk", "k", 20),
    "a part of i": lambda: partitioned(100, "ijk", "i", 20),
    "a part of j, ikj": lambda: partitioned(100, "ikj", "j", 30),
    "a part of k, jki": lambda: partitioned(100, "jki", "k", 30),
    "a part of k, jki, 64": lambda: partitioned(64, "jki", "k", 30),
    "decomposed": lambda: decomposed(100),
    "cache_read": lambda: cached(96),
    "transpose": lambda: transposed(500, 300),
    "transpose by tiles": lambda: transposed(512, 512, 16),
    "transpose of a power of two": lambda: transposed(512, 512),
    "depthwise": lambda: depthwise(32, 34, 3),
    "depthwise of 5": lambda: depthwise(16, 56, 5),
    "a convolution": lambda: Schedule(conv2d(height=20, channels=(2, 2))),
    "a larger convolution": lambda: Schedule(conv2d(height=28, channels=(3, 2))),
    "two blocks": lambda: Schedule(matmul_relu(80, 80, 80)),
    "softmax": lambda: Schedule(softmax(64, 100)),
    "a padded pool": lambda: Schedule(padded_pool(60)),
    "a stencil": lambda: Schedule(stencil(4000)),
}


def in_conflict(name: str) -> bool:
    """Whether rows of the matrices lie a power of two apart."""
    return name.startswith(("64", "128")) or "64" in name or "transpose" in name


@pytest.mark.parametrize("name", CASES)
def test_near_the_count(name):
    func = scheduled(CASES[name]())
    found, truth = predict(func, cache=LEVELS).misses, counted(func, LEVELS)
    print(f"{name}: predicted {found}, counted {truth}")
    ratios = [mine / other for mine, other in zip(found, truth, strict=True)]
    bound = CONFLICTS if in_conflict(name) else BOUND
    assert all(1 / most <= x <= most for x, most in zip(ratios, bound, strict=True)), ratios


def test_the_order_of_candidates_is_that_of_the_counts():
    schedules = [ordered(96, "ijk"), tiled(96, 8), tiled(96, 16), tiled(96, 48), ordered(96, "jki")]
    funcs = [scheduled(sch) for sch in schedules]
    predicted = [predict(f, cache=LEVELS).misses[0] for f in funcs]
    true = [counted(f, LEVELS)[0] for f in funcs]
    assert sorted(range(5), key=predicted.__getitem__) == sorted(range(5), key=true.__getitem__)


@st.composite
def nests(draw) -> str:
    """A nest of two to four loops around `C[…] = C[…] + A[…] * B[…]`: any subset and order of the
    loops in each index, sums of two (halos), strides, and rows that are longer than what is used.
    """
    count = draw(st.integers(2, 4))
    sizes = st.sampled_from([3, 5, 8, 12, 16, 20, 32, 33, 40])
    extents = [draw(sizes if n < 3 else st.sampled_from([2, 3, 4])) for n in range(count)]
    uses, params = [], []
    for name in "ABC"[: draw(st.integers(2, 3))]:
        chosen = draw(st.permutations(range(count)))[: draw(st.integers(1, count))]
        indices: list[str] = []
        shape: list[int] = []
        for loop in chosen:
            if indices and draw(st.integers(0, 3)) == 0:
                indices[-1] += f" + {'ijkl'[loop]}"
                shape[-1] += extents[loop] - 1
            else:
                step = draw(st.sampled_from([1, 1, 1, 2]))
                indices.append(f"{'ijkl'[loop]} * {step}")
                shape.append((extents[loop] - 1) * step + 1 + draw(st.sampled_from([0, 0, 0, 3])))
        uses.append(f"{name}[{', '.join(indices)}]")
        params.append(f'{name}: T.Buffer(({"".join(f"{n}, " for n in shape)}), "float32")')
    lines = ["from mlcnb.script import tir as T", "@T.prim_func", f"def main({', '.join(params)}):"]
    for depth, extent in enumerate(extents):
        lines.append(f"{'    ' * (depth + 1)}for {'ijkl'[depth]} in range({extent}):")
    lines.append(f"{'    ' * (count + 1)}{uses[-1]} = {uses[-1]} + {' * '.join(uses[:-1])}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("extents", [(16, 32, 33, 2), (64, 64, 64, 2), (30, 30, 40, 4)])
def test_loops_that_reach_the_same_elements_touch_them_once(extents):
    """An index of three loops has the sum of their extents, not the product."""
    halo, last = sum(extents[:3]) - 2, extents[3]
    func = script.from_source(f"""from mlcnb.script import tir as T
@T.prim_func
def main(A: T.Buffer(({extents[0]},), "float32"), B: T.Buffer(({halo}, {last}), "float32")):
    for i, j, k, l in T.grid{extents}:
        B[i + j + k, l] = B[i + j + k, l] + A[i]
""")
    assert list(predict(func, cache=SMALL).misses) == counted(func, SMALL)


def test_loops_that_decide_whether_and_not_where_are_no_step():
    func = script.from_source("""from mlcnb.script import tir as T
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((128,), "float32")):
    for i, j, k, l in T.grid(64, 64, 64, 8):
        if i < j:
            B[k + l] = B[k + l] + A[k]
""")
    assert list(predict(func, cache=SMALL).misses) == counted(func, SMALL)


def with_ways(level: Cache, ways: int) -> Cache:
    """A level with as many sets that hold more lines, or fewer."""
    return Cache(level.sets * level.line * ways, ways, level.line, level.name)


@given(nests())
@settings(max_examples=60, deadline=None)
def test_random_nests(text):
    """Within the bound of a cache that has a way more or less: at the edge of its size one line
    more or less decides about all of them.
    """
    func = script.from_source(text)
    found = predict(func, cache=SMALL).misses
    more, less = (counted(func, [with_ways(x, x.ways + by) for x in SMALL]) for by in (1, -1))
    print(f"predicted {found}, counted {more} to {less}")
    for mine, low, high, most in zip(found, more, less, CONFLICTS, strict=True):
        assert low / most <= mine <= high * most
