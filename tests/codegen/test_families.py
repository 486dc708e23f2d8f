"""Functions that differ in one size: what shares code, and that all compute what they should."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import te
from mlcnb.codegen import families
from mlcnb.codegen.llvm import making
from mlcnb.core.errors import CodegenError
from mlcnb.dlight.cpu import schedule_cpu
from mlcnb.ir.structural import structural_equal
from mlcnb.testing.evaluate import evaluate
from mlcnb.tir.analysis.meaning import meaning_of

TARGET = mlc.target.Target("llvm")


def _scaled(rows: int, columns: int = 7, lanes: int = 16, name: str = "scaled"):
    x = te.placeholder((rows, columns, lanes), "float32", name="x")
    a = te.placeholder((rows, lanes), "float32", name="a")
    y = te.compute(x.shape, lambda i, j, k: x[i, j, k] * a[i, k] + te.const(1, "float32"), name="y")
    return te.create_prim_func([x, a, y]).with_attr("global_symbol", name)


def _product(rows: int, inner: int, columns: int):
    a = te.placeholder((rows, inner), "float32", name="a")
    b = te.placeholder((inner, columns), "float32", name="b")
    k = te.reduce_axis((0, inner), name="k")
    c = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    return te.create_prim_func([a, b, c])


def _shifted(size: int):
    x = te.placeholder((size, 6), "int64", name="x")
    y = te.compute(x.shape, lambda i, j: x[i, j] * size + te.if_then_else(i < size // 2, 5, j))
    return te.create_prim_func([x, y])


def _module(funcs) -> mlc.IRModule:
    return mlc.IRModule(
        {f"f{at}": f.with_attr("global_symbol", f"f{at}") for at, f in enumerate(funcs)}
    )


def _compiled(funcs, schedule="default"):
    return mlc.compile(_module(funcs), target=TARGET, schedule=schedule)


def _arguments(func, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [(b.dtype.numpy, [int(n) for n in b.shape]) for b in func.buffer_map.values()]
    return [rng.integers(0, 9, shape).astype(kind) for kind, shape in shapes]


def _check(funcs, ex, wanted) -> None:
    """Every function computes what NumPy does."""
    for at, func in enumerate(funcs):
        found = _arguments(func, at)
        ex[f"f{at}"](*found)
        np.testing.assert_allclose(found[-1], wanted(*found[:-1]), rtol=1e-6, err_msg=f"f{at}")


def _wanted_scaled(x, a):
    return x * a[:, None, :] + 1


def _wanted_shifted(x):
    size = len(x)
    rows, columns = np.arange(size)[:, None], np.arange(6)
    return x * size + np.where(rows < size // 2, 5, columns)


def _symbols(ex) -> list[str]:
    return [k.symbol for k in ex.kernels.values()]


def test_one_code_for_functions_that_differ_in_one_size():
    funcs = [_scaled(rows) for rows in (4, 6, 10, 12, 30)]
    ex = _compiled(funcs)
    assert len(set(_symbols(ex))) == 1
    _check(funcs, ex, _wanted_scaled)
    kernel = ex.kernels["f3"]
    assert kernel.code.sizes == (12,)
    assert kernel.signature.sizes == (12,) and not kernel.signature.dims
    # what is shown is what was compiled: the function of any size; what was given is as it was
    assert "n = T.int32()" in kernel.scheduled.script() and "(12, 7, 16)" in kernel.func.script()
    assert "n = T.int32()" in kernel.lowered.script()
    assert str(kernel.schedule.trace) == str(schedule_cpu(funcs[3], TARGET).trace)
    assert "n = 12" in repr(kernel) and "share the code of 1" in repr(ex.kernels)
    assert structural_equal(kernel.func, funcs[3].with_attr("global_symbol", "f3"))


def test_what_was_compiled_is_found_again_and_alone_is_compiled_alone():
    funcs = [_scaled(rows) for rows in (4, 6, 10, 12, 30)]
    first, second = _compiled(funcs), _compiled(funcs)
    assert all(k.compiled.cached for k in second.kernels.values())
    assert _symbols(first) == _symbols(second)
    assert [k.llvm_ir for k in first.kernels.values()] == [
        k.llvm_ir for k in second.kernels.values()
    ]
    assert str(second.kernels["f1"].scheduled) == str(first.kernels["f1"].scheduled)
    _check(funcs, second, _wanted_scaled)
    alone = _compiled(funcs[:3])
    assert len(set(_symbols(alone))) == 3 and not any(k.code.sizes for k in alone.kernels.values())


def test_a_size_that_stands_for_something_else_everywhere_is_no_size():
    funcs = [_scaled(rows, 7, 16) for rows in (7, 16)]
    assert not families.groups_of(*_texts(funcs))
    x = [te.placeholder((s, 2, 3, 4, 5), "float32", name="x") for s in (2, 3, 4, 5)]
    four = [te.create_prim_func([p, te.compute(p.shape, lambda *i, p=p: -p[i])]) for p in x]
    (group,) = families.groups_of(*_texts(four))
    assert group.general is None
    ex = _compiled(four)
    assert len(set(_symbols(ex))) == 4
    _check(four, ex, np.negative)


def test_of_several_sizes_the_one_that_leaves_fewest_groups():
    funcs = [_scaled(rows, columns) for columns in (5, 7) for rows in (4, 6, 10, 12)]
    groups = families.groups_of(*_texts(funcs))
    assert [g.sizes for g in groups] == [[4, 6, 10, 12]] * 2
    assert len({g.digest for g in groups}) == 2
    ex = _compiled(funcs)
    assert len(set(_symbols(ex))) == 2
    _check(funcs, ex, _wanted_scaled)


def test_the_size_is_a_number_in_the_program_too():
    funcs = [_shifted(size) for size in (9, 11, 14, 20, 21)]
    _check(funcs, _compiled(funcs), _wanted_shifted)
    halves = [_shifted(size) for size in (8, 10, 14, 20, 22)]
    _check(halves, _compiled(halves), _wanted_shifted)


def test_where_the_rules_part_the_group_parts():
    funcs = [_product(64, inner, 48) for inner in (8, 12, 20, 24, 500, 900, 1200, 2000)]
    ex = _compiled(funcs)
    _check(funcs, ex, np.matmul)
    for kernel in ex.kernels.values():
        (symbol,) = {k.symbol for k in ex.kernels.values() if k.compiled is kernel.compiled}
        assert symbol == kernel.symbol
        same = str(schedule_cpu(kernel.func, TARGET).trace)
        assert str(kernel.schedule.trace) == same


def test_parts_are_runs_of_equal_steps():
    funcs = {f"f{size}": _scaled(size) for size in (4, 6, 8, 10, 12, 14, 18, 20)}
    (group,) = families.groups_of(funcs, {n: meaning_of(f)[0] for n, f in funcs.items()})
    asked: list[str] = []

    def rule(name: str):
        if name not in asked:
            asked.append(name)
        made = mlc.tir.Schedule(funcs[name])
        loops = made.get_loops(made.get_block("y"))
        if int(name[1:]) > 12:
            made.vectorize(loops[-1])
        return made

    parts = list(group.parts(rule))
    assert [p.sizes for p in parts] == [[4, 6, 8, 10, 12], [14], [18], [20]]
    assert [p.general is not None for p in parts] == [True, False, False, False]
    assert len(asked) < len(funcs) + 1


def test_steps_that_leave_a_rest_are_not_for_all():
    funcs = {f"f{size}": _scaled(size) for size in (8, 12, 20, 24)}
    (group,) = families.groups_of(funcs, {n: meaning_of(f)[0] for n, f in funcs.items()})

    def rule(name: str):
        made = mlc.tir.Schedule(funcs[name])
        made.split(made.get_loops(made.get_block("y"))[0], [None, 4])
        return made

    assert [p.general for p in group.parts(rule)] == [None] * 4


def test_what_cannot_be_code_for_all_is_code_for_each(monkeypatch):
    real = making.emit

    def emit(name, *rest):
        if ".n." in name:
            raise CodegenError("an open number of lanes")
        return real(name, *rest)

    monkeypatch.setattr(making, "emit", emit)
    monkeypatch.setenv("MLCNB_CACHE", "0")
    funcs = [_scaled(rows) for rows in (4, 6, 10, 12, 30)]
    ex = _compiled(funcs)
    assert len(set(_symbols(ex))) == 5
    _check(funcs, ex, _wanted_scaled)


def test_rules_of_a_user_are_asked_for_each_function():
    funcs = [_scaled(rows) for rows in (4, 6, 10, 12, 30)]
    asked = []

    def mine(func, target):
        asked.append(func)
        return schedule_cpu(func, target)

    ex = _compiled(funcs, mine)
    assert len(asked) >= 5 and len(set(_symbols(ex))) == 5


def test_open_sizes_are_left_as_they_are():
    n = te.var("m", "int64")
    funcs = []
    for rows in (4, 6, 10, 12, 30):
        x = te.placeholder((rows, n), "float32", name="x")
        funcs.append(te.create_prim_func([x, te.compute(x.shape, lambda i, j, x=x: x[i, j] + 1.0)]))
    ex = _compiled(funcs)
    assert not any(k.code.sizes for k in ex.kernels.values())
    for at, rows in enumerate((4, 6, 10, 12, 30)):
        x = np.random.default_rng(at).random((rows, 5), np.float32)
        y = np.zeros_like(x)
        ex[f"f{at}"](x, y)
        np.testing.assert_array_equal(y, x + 1)


def _grown():
    """A network that joins what it has made to what it had, seven times."""
    rng = np.random.default_rng(0)
    op = mlc.relax.op
    builder = mlc.relax.BlockBuilder()
    x = mlc.relax.Var("x", mlc.relax.TensorStructInfo((1, 32, 6, 6), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            now = x
            for at in range(7):
                channels = 32 + 32 * at
                scale = rng.random((1, channels, 1, 1), np.float32)
                w = rng.standard_normal((32, channels, 1, 1), np.float32) / np.float32(channels)
                y = builder.emit(op.nn.relu(op.multiply(now, mlc.relax.const(scale))))
                y = builder.emit(op.nn.conv2d(y, mlc.relax.const(w)))
                now = builder.emit(op.concat([now, y], axis=1))
            out = builder.emit_output(now)
        builder.emit_func_output(out)
    return builder.get()


def test_a_network_that_grows(tmp_path):
    mod = _grown()
    ex = mlc.compile(mod, target=TARGET)
    shared = [k for k in ex.kernels.values() if k.is_made and k.code.sizes]
    assert len(shared) >= 8 and len({k.symbol for k in shared}) <= 4
    x = np.random.default_rng(1).standard_normal((1, 32, 6, 6)).astype("float32")
    wanted = np.asarray(evaluate(mod, x))
    np.testing.assert_allclose(np.asarray(ex(x)), wanted, rtol=2e-5, atol=1e-6)
    ex.export_library(tmp_path / "grown.tar")
    loaded = mlc.load_module(tmp_path / "grown.tar")
    np.testing.assert_array_equal(np.asarray(loaded(x)), np.asarray(ex(x)))
    again = mlc.compile(mod, target=TARGET)
    np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(ex(x)))


def _texts(funcs):
    named = {f"f{at}": f for at, f in enumerate(funcs)}
    return named, {name: meaning_of(f)[0] for name, f in named.items()}


@pytest.mark.slow
@given(st.data())
def test_any_sizes(data):
    sizes = data.draw(st.lists(st.integers(0, 70), min_size=4, max_size=7, unique=True))
    kind = data.draw(st.sampled_from(("scaled", "product", "shifted")))
    if kind == "scaled":
        at = data.draw(st.integers(0, 2))
        others = data.draw(st.tuples(st.integers(1, 20), st.integers(1, 40)))
        shapes = [(*others[:at], size, *others[at:]) for size in sizes]
        funcs, wanted = [_scaled(*shape) for shape in shapes], _wanted_scaled
    elif kind == "product":
        at = data.draw(st.integers(0, 2))
        others = data.draw(st.tuples(st.integers(1, 33), st.integers(1, 33)))
        funcs = [_product(*others[:at], size, *others[at:]) for size in sizes]
        wanted = np.matmul
    else:
        funcs, wanted = [_shifted(size) for size in sizes], _wanted_shifted
    _check(funcs, _compiled(funcs), wanted)


@pytest.mark.parametrize("threads", [1, 2])
def test_on_threads(threads):
    funcs = [_scaled(rows, 64, 64) for rows in (100, 101, 130, 170)]
    ex = _compiled(funcs)
    before = mlc.get_num_threads()
    mlc.set_num_threads(threads)
    try:
        _check(funcs, ex, _wanted_scaled)
    finally:
        mlc.set_num_threads(before)
