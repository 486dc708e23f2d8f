"""What happens as an exported module runs: jit, printing, caches, foreign functions."""

import re

import numpy as np
import pytest

import mlcnb
from mlcnb.core import registry
from mlcnb.core.errors import ArgumentError, MLCError, RuntimeInputError, UnsupportedError
from mlcnb.relax.frontend import nn
from mlcnb.relax.frontend.nn import op

X = {"forward": {"x": nn.spec.Tensor((2, 4), "float32")}}


def test_jit_gives_torch_for_torch():
    torch = pytest.importorskip("torch")
    module = nn.Linear(4, 3)
    theirs = torch.nn.Linear(4, 3)
    module.load_state_dict(theirs.state_dict())
    x = torch.rand(2, 4)
    made = module.jit(X)["forward"](x)
    assert isinstance(made, torch.Tensor)
    torch.testing.assert_close(made, theirs(x).detach())


def test_jit_of_packed_parameters():
    module = nn.Linear(4, 3)
    for parameter in module.parameters():
        parameter.data = np.ones(parameter.shape, "float32")
    spec = {"forward": {**X["forward"], "$": {"param_mode": "packed"}}}
    made = module.jit(spec, out_format="numpy")(np.ones((2, 4), "float32"))
    np.testing.assert_array_equal(made, np.full((2, 3), 5.0))


@pytest.mark.parametrize("device", ["cuda-sim", mlcnb.target.Target("cuda-sim")])
def test_jit_for_a_gpu(device):
    module = nn.Linear(4, 3)
    for parameter in module.parameters():
        parameter.data = np.arange(np.prod(parameter.shape), dtype="float32").reshape(
            parameter.shape
        )
    jitted = module.jit(X, device, out_format="numpy")
    assert jitted.executable.target.kind == "cuda-sim"
    x = np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)
    wanted = x @ np.arange(12, dtype="float32").reshape(3, 4).T + np.arange(3, dtype="float32")
    np.testing.assert_allclose(jitted(x), wanted, rtol=1e-5, atol=1e-5)
    assert module.jit(X, "cuda", out_format="numpy").executable.target.kind == "cuda"


def test_jit_refuses():
    module = nn.Linear(4, 3)

    def check(message, *args, **options):
        with pytest.raises(ArgumentError) as caught:
            module.jit(X, *args, **options)
        assert str(caught.value) == message

    check(
        "Parameters are not set to any concrete values: weight, bias\n"
        "hint: module.load_state_dict(state), or parameter.data = array"
    )
    check('Unknown out_format: tf\nhint: "torch" or "numpy"', out_format="tf")
    check("jit: graphs run on the first device, not on cuda(1)", device="cuda:1")
    for parameter in module.parameters():
        parameter.data = np.ones(parameter.shape, "float32")
    jitted = module.jit(X, out_format="numpy")
    with pytest.raises(ArgumentError, match=re.escape("forward takes 1 arguments (x), got 0")):
        jitted()
    with pytest.raises(ArgumentError, match="no method 'decode' was exported"):
        jitted["decode"]
    with pytest.raises(RuntimeInputError, match="'x'"):
        jitted(np.ones((2, 5), "float32"))


class Printing(nn.Module):
    def forward(self, x):
        y = x + 1
        op.print_(y)
        op.debug_func("tests.nn.seen", y, 3, 0.5, "word")
        return y


def test_printing(capsys):
    seen = []
    registry.register_func("tests.nn.seen", lambda *a: seen.append(a), override=True)
    jitted = Printing().jit(X, out_format="numpy", debug=True)
    jitted(np.zeros((2, 4), "float32"))
    line, data = capsys.readouterr().out.split("data =\n")
    assert re.fullmatch(r".*test_run\.py:\d+: shape = \(2, 4\), dtype = float32, ", line)
    assert data == f"{np.ones((2, 4), 'float32')}\n"
    ((where, array, *rest),) = seen
    assert re.fullmatch(r".*test_run\.py:\d+", where)
    np.testing.assert_array_equal(array, np.ones((2, 4)))
    assert rest == [3, 0.5, "word"]


def test_printed_text_reads_back():
    mod, _ = Printing().export_tvm(X, debug=True)
    mlcnb.ir.assert_structural_equal(mlcnb.script.from_source(mod.script()), mod)


class Cached(nn.Module):
    def __init__(self):
        self.cache = nn.KVCache(1, [2])

    def forward(self, x, total: int):
        self.cache.append(x)
        return self.cache.view(total)


CACHED = {"forward": {"x": nn.spec.Tensor(["n", 2], "float32"), "total": int}}


def test_a_cache_grows_from_call_to_call():
    first, second = (Cached().jit(CACHED, out_format="numpy") for _ in range(2))
    rows = np.arange(12, dtype="float32").reshape(6, 2)
    for stop in (1, 2, 6):
        new = rows[{1: 0, 2: 1, 6: 2}[stop] : stop]
        got = first(new, stop)
        np.testing.assert_array_equal(got, rows[:stop])
    got[:] = -1
    np.testing.assert_array_equal(first(rows[:0], 6), rows)
    np.testing.assert_array_equal(second(rows[4:], 2), rows[4:])


def test_a_cache_that_is_asked_for_what_it_has_not():
    jitted = Cached().jit(CACHED, out_format="numpy")
    with pytest.raises(MLCError) as caught:
        jitted(np.zeros((1, 2), "float32"), 3)
    assert "a cache of 1 rows (2,) is looked at as (3, 2)" in str(caught.value)


def test_a_cache_of_another_dtype():
    class Wrong(Cached):
        def forward(self, x, total: int):
            self.cache.append(x.astype("float16"))
            return self.cache.view(total)

    with pytest.raises(ArgumentError) as caught:
        Wrong().export_tvm(CACHED)
    wanted = 'KVCache has been set to use dtype "float32", but got "float16"'
    assert str(caught.value) == wanted


def doubled(x, factor, out):
    np.multiply(x, factor, out=out)


class Foreign(nn.Module):
    def __init__(self, extern):
        self.extern = extern

    def forward(self, x):
        nn.add_extern(self.extern)
        return self.extern["tests.nn.times"](x, 2) + 1


SYMBOLS = {"tests.nn.times": lambda x, factor: nn.Tensor.placeholder(x.shape, x.dtype)}


def test_foreign_functions():
    extern = nn.ExternModule(SYMBOLS)
    mod, params, externs = Foreign(extern).export_tvm(X, allow_extern=True)
    assert (params, externs) == ([], [extern])
    call = mod["forward"].body.bindings[0].value
    assert call.op.name == "relax.call_dps_packed"
    assert call.args[0].global_symbol == "tests.nn.times"
    with pytest.raises(ArgumentError, match="exist when they are not allowed"):
        Foreign(extern).export_tvm(X)
    registry.register_func("tests.nn.times", doubled, override=True)
    x = np.arange(8, dtype="float32").reshape(2, 4)
    np.testing.assert_array_equal(Foreign(extern).jit(X, out_format="numpy")(x), 2 * x + 1)


def test_foreign_functions_that_are_not_here():
    symbols = {"tests.nn.absent": SYMBOLS["tests.nn.times"]}
    with pytest.raises(MLCError, match="no global function 'tests.nn.absent'"):
        nn.ExternModule(symbols).load()
    source = nn.SourceModule(symbols, "int f() { return 0; }", "cpp")
    with pytest.raises(UnsupportedError) as caught:
        source.load()
    assert str(caught.value) == (
        "tests.nn.absent: cpp source is written for TVM's C++ interface and is not loaded\n"
        "hint: register a Python function in its place: "
        'mlcnb.register_func("tests.nn.absent", f)'
    )
    with pytest.raises(UnsupportedError, match="the object file f.o is written for TVM's"):
        nn.ObjectModule(symbols, "f.o").load()
    with pytest.raises(ArgumentError, match="Invalid source format: f90"):
        nn.SourceModule(symbols, "", "f90")
    with pytest.raises(ArgumentError, match="no function 'other'"):
        source["other"]
    with pytest.raises(MLCError, match="only be invoked when exporting a module"):
        nn.add_extern(source)


def test_symbols_are_added_once():
    class Twice(Foreign):
        def forward(self, x):
            nn.add_extern(self.extern)
            return super().forward(x)

    with pytest.raises(ArgumentError) as caught:
        Twice(nn.ExternModule(SYMBOLS)).export_tvm(X, allow_extern=True)
    assert str(caught.value) == "Duplicate symbols: ['tests.nn.times']"
