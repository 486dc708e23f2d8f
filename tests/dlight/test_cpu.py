"""The default CPU schedules: the same numbers as the operator's meaning; traces that replay."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as mlc
import mlcnb.tir.schedule.schedule as schedule_module
from mlcnb import te, tir
from mlcnb.codegen.llvm.inspect import facts
from mlcnb.dlight.cpu import is_scheduled, schedule_cpu
from mlcnb.dlight.cpu.tiles import Tile, choose_tile
from mlcnb.ir.structural import assert_structural_equal
from mlcnb.relax import op as R
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.operator import attrs_of

HOST = mlc.target.Target("llvm")
LANES = HOST.lanes("float32")


def loops_of(make, *arrays: np.ndarray):
    """(PrimFunc, expected result) of one operator on arrays."""
    args = [Var(f"x{i}", tensor_info(a.shape, a.dtype.name)) for i, a in enumerate(arrays)]
    meaning = attrs_of(make(*args))
    tensors = [te.placeholder(a.shape, a.dtype.name, f"x{i}") for i, a in enumerate(arrays)]
    func = te.create_prim_func([*tensors, meaning.compute(*tensors)])
    return func, np.asarray(meaning.numpy(*arrays))


def check(make, *arrays: np.ndarray) -> tir.Schedule:
    """Run the default schedule on one and two threads and compare; gives the schedule."""
    func, expected = loops_of(make, *arrays)
    sch = schedule_cpu(func, HOST)
    ex = mlc.compile(func, schedule="default")
    for threads in (1, 2):
        mlc.set_num_threads(threads)
        found = np.full(
            expected.shape, np.nan if expected.dtype.kind == "f" else 77, expected.dtype
        )
        ex(*arrays, found)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)
    return sch


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def blocked(channels: int, size: int) -> np.ndarray:
    return random(1, channels // LANES, size, size, LANES)


def kernel(outer: int, inner: int, size: int) -> np.ndarray:
    return random(outer // LANES, inner // LANES, size, size, LANES, LANES)


BLOCKED = {
    "data_layout": f"NCHW{LANES}c",
    "kernel_layout": f"OIHW{LANES}i{LANES}o",
}


@pytest.mark.parametrize("size, window, stride, pad", [(8, 3, 1, 1), (13, 3, 2, 1), (7, 1, 1, 0)])
@pytest.mark.parametrize("outer", [1, 2, 3])
def test_convolution_on_blocked_channels(size, window, stride, pad, outer):
    sch = check(
        lambda a, b: R.nn.conv2d(a, b, strides=stride, padding=pad, **BLOCKED),
        blocked(2 * LANES, size),
        kernel(outer * LANES, 2 * LANES, window),
    )
    names = [inst.kind for inst in sch.trace.insts]
    assert "DecomposeReduction" in names
    assert "Vectorize" in names


@pytest.mark.parametrize("length", [1, 17, 29, 31, 55])
def test_rows_that_no_tile_divides(length):
    check(
        lambda a, b: R.nn.conv2d(a, b, **BLOCKED),
        random(1, 1, 2, length, LANES),
        kernel(2 * LANES, LANES, 1),
    )


def test_grouped_convolution_in_blocks():
    check(
        lambda a, b: R.nn.conv2d(a, b, padding=1, groups=2, **BLOCKED),
        blocked(4 * LANES, 6),
        kernel(4 * LANES, 2 * LANES, 3),
    )


def test_first_layer_and_depthwise_and_pooling():
    out = f"NCHW{LANES}c"
    check(
        lambda a, b: R.nn.conv2d(
            a, b, strides=2, padding=3, kernel_layout=f"OIHW{LANES}o", out_layout=out
        ),
        random(1, 3, 20, 20),
        random(2, 3, 7, 7, LANES),
    )
    check(
        lambda a, b: R.nn.conv2d(
            a,
            b,
            padding=1,
            groups=2 * LANES,
            data_layout=out,
            kernel_layout=f"OIHW{LANES}o",
        ),
        blocked(2 * LANES, 9),
        random(2, 1, 3, 3, LANES),
    )
    check(
        lambda a: R.nn.max_pool2d(a, pool_size=3, strides=2, padding=1, layout=out),
        blocked(2 * LANES, 11),
    )
    check(
        lambda a: R.nn.avg_pool2d(a, pool_size=3, strides=2, padding=1, layout=out),
        blocked(2 * LANES, 11),
    )
    check(lambda a: R.mean(a, axis=(2, 3), keepdims=True), blocked(2 * LANES, 7))


@pytest.mark.parametrize("rows, columns", [(1, 70), (17, 100), (6, 64)])
def test_packed_product(rows, columns):
    block = 2 * LANES
    weight = random(-(-columns // block), 24, block)
    check(lambda a, b: R.nn.matmul_packed(a, b, columns=columns), random(rows, 24), weight)


@pytest.mark.parametrize("rows", [1, 5])
def test_packed_product_of_any_number_of_rows(rows):
    """A batch that is not known yet: columns stay in registers, the bias is added to them there."""
    columns, block = 70, 2 * LANES
    a, w, bias = random(rows, 24), random(-(-columns // block), 24, block), random(columns)
    x = te.placeholder((te.var("n", "int64"), 24), "float32", "x")
    weight, b = te.placeholder(w.shape, "float32", "w"), te.placeholder((columns,), "float32", "b")
    given = [Var(n, tensor_info(s, "float32")) for n, s in (("x", a.shape), ("w", w.shape))]
    product = attrs_of(R.nn.matmul_packed(*given, columns=columns)).compute(x, weight)
    func = te.create_prim_func(
        [x, weight, b, te.compute(product.shape, lambda i, j: product[i, j] + b[j], name="add")]
    )
    text = schedule_cpu(func, HOST).mod["main"].script()
    whole = -(-columns // LANES) * LANES
    assert f'T.alloc_buffer((n, T.int64({whole})), scope="local")' in text
    found = np.full((rows, columns), np.nan, "float32")
    mlc.compile(func, schedule="default")(a, w, bias, found)
    wanted = a @ w.transpose(1, 0, 2).reshape(24, -1)[:, :columns] + bias
    np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("shape", [(4, 34, 34, 50), (2, 8, 19, 64), (1, 1, 5, 33)])
def test_batched_product(shape):
    batch, m, k, n = shape
    check(lambda a, b: R.matmul(a, b), random(batch, m, k), random(batch, k, n))


@pytest.mark.parametrize(
    "make",
    [
        lambda a: R.nn.softmax(a, axis=1),
        lambda a: R.sum(a, axis=1),
        lambda a: R.max(a, axis=0),
        lambda a: R.permute_dims(a, axes=(1, 0)),
        lambda a: R.sigmoid(a),
        lambda a: R.cumsum(a, axis=1),
    ],
)
def test_everything_else(make):
    check(make, random(37, 53))


def test_an_epilogue_is_computed_on_the_accumulators():
    """Bias, a residual and relu stay inside the tile: no buffer but the accumulators is left."""
    x, w, r = (
        te.placeholder(s, name=n)
        for s, n in [
            ((1, 2, 8, 8, LANES), "x"),
            ((2, 2, 1, 1, LANES, LANES), "w"),
            ((1, 2, 8, 8, LANES), "r"),
        ]
    )
    args = [Var(t.name, tensor_info([int(d) for d in t.shape], "float32")) for t in (x, w)]
    conv = attrs_of(R.nn.conv2d(*args, **BLOCKED)).compute(x, w)
    total = te.compute(conv.shape, lambda *i: conv(*i) + r(*i), name="total")
    relu = te.compute(conv.shape, lambda *i: tir.op.max(total(*i), 0.0), name="relu")
    func = te.create_prim_func([x, w, r, relu])
    sch = schedule_cpu(func, HOST)
    scopes = {b.name: b.scope for b in sch.get(sch.get_block("root")).alloc_buffers}
    assert scopes == {"conv2d_NCHWc": "local"}
    arrays = [random(*[int(d) for d in t.shape]) for t in (x, w, r)]
    out = np.zeros(arrays[2].shape, np.float32)
    mlc.compile(func, schedule="default")(*arrays, out)
    expected = np.einsum("ncyxi,fcij->nfyxj", arrays[0], arrays[1][:, :, 0, 0]) + arrays[2]
    np.testing.assert_allclose(out, np.maximum(expected, 0), rtol=1e-4, atol=1e-4)


def test_the_trace_replays_to_the_same_program():
    func, _ = loops_of(
        lambda a, b: R.nn.conv2d(a, b, padding=1, **BLOCKED),
        blocked(LANES, 8),
        kernel(2 * LANES, LANES, 3),
    )
    sch = schedule_cpu(func, HOST)
    again = tir.Schedule(func)
    sch.trace.apply_to_schedule(again, remove_postproc=False)
    assert_structural_equal(again.mod, sch.mod)


def test_a_function_that_somebody_has_scheduled_is_left_alone():
    func, _ = loops_of(lambda a: R.nn.relu(a), random(4, 32))
    assert not is_scheduled(func)
    sch = tir.Schedule(func)
    sch.unroll(sch.get_loops(sch.get_child_blocks(sch.get_block("root"))[0])[0])
    assert is_scheduled(sch.mod["main"])
    assert schedule_cpu(sch.mod["main"], HOST) is None


@pytest.mark.parametrize(
    "length, chunks, registers, tile",
    [
        (56, 4, 32, Tile(4, 4, True)),
        (55, 2, 32, Tile(11, 1, True)),
        (27, 1, 32, Tile(27, 1, True)),
        (7, 1, 16, Tile(7, 1, True)),
        (28, 8, 16, Tile(6, 2, False)),  # no broadcast operands: a load for each row
        (1, 8, 32, Tile(1, 4, True)),
        (None, 8, 32, Tile(5, 4, False)),  # the last one overlaps, or is tested
    ],
)
def test_tiles(length, chunks, registers, tile):
    assert choose_tile(length, chunks, registers) == tile


def test_weights_that_are_not_in_l1_are_read_by_narrower_tiles_on_two_units():
    """A vector comes from L2 in the time of 5 multiply-adds on Zen 5, of 3 on Zen 4."""
    zen4, zen5 = (mlc.target.Target(f"llvm -mcpu=znver{n}") for n in (4, 5))
    assert choose_tile(28, 32, 32, target=zen4, depth=256)[:2] == (4, 4)
    assert choose_tile(28, 32, 32, target=zen5, depth=256)[:2] == (28, 1)
    assert choose_tile(28, 32, 32, target=zen5, depth=64)[:2] == (4, 4), "they are in L1"


def test_tiles_of_one_vector_where_a_load_is_left_for_the_weights():
    """Each multiply-add of such a tile loads a number: Intel's two units have two loads a cycle."""
    intel = mlc.target.Target("llvm -mcpu=emeraldrapids")
    assert choose_tile(28, 32, 32, target=intel, depth=256)[:2] == (14, 2)


@pytest.mark.parametrize("cpu, lanes", [("x86-64-v3", 8), ("x86-64-v4", 16), ("cortex-a72", 4)])
def test_no_tile_spills_and_every_product_is_a_fused_multiply_add(cpu, lanes):
    """The hot loop of a 3 x 3 convolution, for three instruction sets."""
    target = mlc.target.Target(f"llvm -mcpu={cpu}")
    assert target.lanes("float32") == lanes
    x, w = (1, 4, 16, 16, lanes), (4, 4, 3, 3, lanes, lanes)
    layout = {"data_layout": f"NCHW{lanes}c", "kernel_layout": f"OIHW{lanes}i{lanes}o"}
    func, _ = loops_of(
        lambda a, b: R.nn.conv2d(a, b, padding=1, **layout), np.zeros(x, "f"), np.zeros(w, "f")
    )
    made = mlc.compile(func, target=target, schedule="default").kernels["main"]
    hot = max((f.hot for f in facts(made.compiled).values() if f.hot), key=lambda c: c.fma)
    assert hot.fma >= 8
    assert hot.spills == 0
    assert hot.fma >= 0.4 * hot.instructions


def test_a_function_is_checked_once_whatever_the_rules(monkeypatch):
    func, _ = loops_of(lambda a, b: R.add(a, b), random(8, 32), random(8, 32))
    made = []
    real = schedule_module.prepared
    monkeypatch.setattr(schedule_module, "prepared", lambda *args: made.append(args) or real(*args))
    schedule_cpu(func, HOST)
    assert len(made) == 1


def test_small_windows_are_written_out():
    func, _ = loops_of(
        lambda a: R.nn.max_pool2d(a, pool_size=3, layout=f"NCHW{LANES}c"), blocked(LANES, 9)
    )
    loops = [i for i in schedule_cpu(func, HOST).mod["main"].script().splitlines() if "for rh" in i]
    assert "T.unroll(3)" in loops[0]
