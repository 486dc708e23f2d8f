"""Parts of a graph run by libraries: what is partitioned, what is called, and the same numbers."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import mlcnb
from mlcnb import relax
from mlcnb.core.errors import MissingDependencyError, MLCError, PassError
from mlcnb.core.registry import register_func
from mlcnb.ir import assert_structural_equal
from mlcnb.relax import backend
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.dpl import is_op, wildcard
from mlcnb.relax.transform import FuseOpsByPattern, MergeCompositeFunctions, RunCodegen
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R


@I.ir_module
class Dense:
    @R.function
    def main(
        x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 8), "float32"), b: R.Tensor((8,), "float32")
    ):
        with R.dataflow():
            lv = R.matmul(x, w)
            lv1 = R.add(lv, b)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, R.permute_dims(w))
            gv = R.exp(lv3)
            R.output(gv)
        return gv


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(dtype) / 2 for s in shapes]


X, W, B = arrays((4, 8), (8, 8), (8,))
EXPECTED = np.exp(np.maximum(X @ W + B, 0) @ W.T)


def test_a_pattern_becomes_a_function() -> None:
    @I.ir_module
    class After:
        @R.function(private=True)
        def fused_relax_nn_relu_relax_exp(x: R.Tensor((4,), "float32")):
            R.func_attr({"Composite": "toy.relu_exp", "Primitive": True})
            with R.dataflow():
                lv = R.nn.relu(x)
                gv = R.exp(lv)
                R.output(gv)
            return gv

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                gv = After.fused_relax_nn_relu_relax_exp(x)
                R.output(gv)
            return gv

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                lv = R.nn.relu(x)
                gv = R.exp(lv)
                R.output(gv)
            return gv

    pattern = is_op("relax.exp")(is_op("relax.nn.relu")(wildcard()))
    got = FuseOpsByPattern([("toy.relu_exp", pattern)])(Before)
    assert_well_formed(got)
    assert_structural_equal(got, After)
    nothing = FuseOpsByPattern([("toy.relu_exp", pattern, {}, lambda context: False)])
    assert nothing(Before) is Before


def test_inner_values_that_are_used_come_back_too_and_circles_are_left_alone() -> None:
    @I.ir_module
    class Leaks:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.tanh(a)
                c = R.exp(a)
                d = R.add(b, c)
                R.output(d)
            return d

    relu_exp = is_op("relax.exp")(is_op("relax.nn.relu")(wildcard()))
    got = FuseOpsByPattern([("toy.p", relu_exp)])(Leaks)
    assert_well_formed(got)
    inner = got["fused_relax_nn_relu_relax_exp"]
    assert isinstance(inner.body.body, relax.Tuple)
    x = arrays((4,))[0]
    whole = mlcnb.testing.evaluate(got, x)
    np.testing.assert_allclose(whole, mlcnb.testing.evaluate(Leaks, x), rtol=1e-6)
    circle = is_op("relax.add")(wildcard(), is_op("relax.exp")(is_op("relax.nn.relu")(wildcard())))
    assert FuseOpsByPattern([("toy.p", circle)])(Leaks) is Leaks


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("library", ["blas", "onnxruntime"])
def test_libraries_give_the_same_numbers(library: str, merge: bool) -> None:
    if library == "onnxruntime":
        pytest.importorskip("onnxruntime")
    parted = backend.partition(Dense, library, merge)
    assert_well_formed(parted)
    made = RunCodegen()(parted)
    assert_well_formed(made)
    assert "Codegen" not in {k for f in made.functions.values() for k in f.attrs}
    assert_structural_equal(from_source(made.script()), made)
    ex = mlcnb.compile(made)
    np.testing.assert_allclose(ex(X, W, B), EXPECTED, rtol=1e-4)
    vm = relax.VirtualMachine(ex, mlcnb.cpu())
    found = vm["main"](*map(mlcnb.runtime.tensor, (X, W, B)))
    assert isinstance(found, mlcnb.runtime.Tensor)
    np.testing.assert_allclose(found.numpy(), EXPECTED, rtol=1e-4)


@pytest.mark.parametrize("library", ["blas", "onnxruntime", "cublas", "cudnn"])
def test_a_library_is_a_global_function_before_anything_asked_for_it(library: str) -> None:
    text = f"""
import mlcnb
print(mlcnb.get_global_func("relax.ext.{library}", True) is not None,
      mlcnb.get_global_func("relax.ext.no_such", True))
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.split() == ["True", "None"]


def test_the_partitions_of_tvm_for_the_libraries_of_a_gpu() -> None:
    scaled = relax.transform.BindParams("main", {"b": B})(Dense)
    cublas = backend.cuda.cublas.partition_for_cublas
    assert_structural_equal(
        cublas(scaled, bind_constants=True), backend.partition(scaled, "cublas")
    )
    inputs = cublas(scaled)["fused_relax_matmul_relax_add_relax_nn_relu_cublas"].params
    assert [p.struct_info.ndim for p in inputs] == [2, 2, 1]
    assert backend.cuda.cudnn.partition_for_cudnn(Dense) is Dense


def test_the_library_stands_in_the_text() -> None:
    made = RunCodegen()(backend.partition(Dense, "blas"))
    text = made.script()
    assert 'I.module_attrs({"external_mods": [I.external_module("blas", [' in text
    assert 'R.call_dps_packed("fused_relax_matmul_relax_add_relax_nn_relu_blas", (x, w, b)' in text
    assert "fused_relax_permute_dims_relax_matmul_blas" in text
    (library,) = made.attrs["external_mods"]
    assert "openblas" in library.get_source().casefold()
    ex = mlcnb.compile(from_source(text))
    with pytest.raises(MLCError, match="which did not make it here"):
        ex(X, W, B)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "a, b", [((3, 5), (5, 2)), ((2, 3, 5), (5, 4)), ((2, 3, 5), (2, 5, 4)), ((0, 5), (5, 2)),
             ((3, 0), (0, 2)), ((1, 1), (1, 1))],
)  # fmt: skip
def test_blas_against_numpy(a: tuple[int, ...], b: tuple[int, ...], dtype: str) -> None:
    from mlcnb.relax.backend.blas import find_blas

    one, two = arrays(a, b, dtype=dtype)
    np.testing.assert_allclose(find_blas().matmul(one, two), one @ two, rtol=1e-5, atol=1e-6)
    turned = np.ascontiguousarray(np.swapaxes(two, -1, -2)).swapaxes(-1, -2)
    apart = np.repeat(two, 2, axis=-1)[..., ::2]
    for other in (turned, apart):
        np.testing.assert_allclose(find_blas().matmul(one, other), one @ two, rtol=1e-5, atol=1e-6)


def test_convolutions_in_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")

    @I.ir_module
    class Conv:
        @R.function
        def main(x: R.Tensor((1, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
            with R.dataflow():
                lv = R.nn.conv2d(x, w, padding=(1, 1), strides=(2, 2))
                lv1 = R.add(lv, R.const(np.ones((1, 4, 1, 1), "float32")))
                gv = R.nn.relu(lv1)
                R.output(gv)
            return gv

    given = arrays((1, 3, 8, 8), (4, 3, 3, 3))
    made = RunCodegen({"onnxruntime": {"threads": 1}})(backend.partition(Conv, "onnxruntime"))
    assert "Conv, Add, Relu" in made.attrs["external_mods"][0].get_source()
    expected = mlcnb.testing.evaluate(Conv, *given)
    np.testing.assert_allclose(mlcnb.compile(made)(*given), expected, rtol=1e-4, atol=1e-5)


def test_a_library_of_the_readers_own() -> None:
    called = []

    def toy(functions: Any, options: Any, constants: Any) -> Any:
        def run(x: Any, out: Any) -> None:
            called.append(options["volts"])
            np.maximum(x, 0, out=out)

        return {f.attrs["global_symbol"]: run for f in functions}

    register_func("relax.ext.test_toy", toy, override=True)
    backend.register_patterns([("test_toy.relu", is_op("relax.nn.relu")(wildcard()))])
    assert backend.get_pattern("test_toy.relu") is not None
    assert backend.get_pattern("test_toy.none") is None
    made = RunCodegen({"test_toy": {"volts": 5}})(backend.partition(Dense, "test_toy"))
    np.testing.assert_allclose(mlcnb.compile(made)(X, W, B), EXPECTED, rtol=1e-4)
    assert called == [5]


def test_patterns_that_come_later_go_first() -> None:
    names = [p.name for p in backend.get_patterns_with_prefix("blas.matmul_bias")]
    assert names == ["blas.matmul_bias_gelu", "blas.matmul_bias_relu", "blas.matmul_bias"]


def test_merging_does_not_go_in_circles() -> None:
    @I.ir_module
    class Around:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a = R.nn.relu(x)
                b = R.tanh(a)
                c = R.nn.relu(b)
                d = R.exp(c)
                e = R.nn.relu(R.add(a, d))
                R.output(e)
            return e

    parted = FuseOpsByPattern([("toy.relu", is_op("relax.nn.relu")(wildcard()))])(Around)
    merged = MergeCompositeFunctions()(parted)
    assert_well_formed(merged)
    assert sum("Codegen" in f.attrs for f in merged.functions.values()) == 1
    x = arrays((4,))[0]
    whole = mlcnb.testing.evaluate(merged, x)
    np.testing.assert_allclose(whole, mlcnb.testing.evaluate(Around, x), rtol=1e-6)


def test_groups_that_are_sound_alone_but_not_together_stay_apart() -> None:
    @I.ir_module
    class Crossed:
        @R.function
        def main(x: R.Tensor((4,), "float32")):
            with R.dataflow():
                a1 = R.nn.relu(x)
                b1 = R.exp(a1)
                b2 = R.exp(x)
                b3 = R.add(b1, b2)
                a2 = R.multiply(a1, b2)
                c = R.subtract(a2, b3)
                R.output(c)
            return c

    any2 = (wildcard(), wildcard())
    patterns = [
        ("one.relu", is_op("relax.nn.relu")(wildcard())),
        ("one.multiply", is_op("relax.multiply")(*any2)),
        ("two.exp", is_op("relax.exp")(wildcard())),
        ("two.add", is_op("relax.add")(*any2)),
    ]
    merged = MergeCompositeFunctions()(FuseOpsByPattern(patterns)(Crossed))
    assert_well_formed(merged)
    x = arrays((4,))[0]
    whole = mlcnb.testing.evaluate(merged, x)
    np.testing.assert_allclose(whole, mlcnb.testing.evaluate(Crossed, x), rtol=1e-6)


def test_refusals() -> None:
    with pytest.raises(PassError, match="an int is no fusion pattern"):
        FuseOpsByPattern([3])(Dense)
    pattern = [("nobody.relu", is_op("relax.nn.relu")(wildcard()))]
    parted = FuseOpsByPattern(pattern, annotate_codegen=True)(Dense)
    with pytest.raises(PassError, match="there is no global function 'relax.ext.nobody'"):
        RunCodegen()(parted)
    register_func("relax.ext.nobody", lambda functions, options, constants: {}, override=True)
    with pytest.raises(PassError, match="made no function 'fused_relax_nn_relu_nobody'"):
        RunCodegen()(parted)
    register_func("relax.ext.nobody", lambda functions, options, constants: [1], override=True)
    with pytest.raises(PassError, match="the library 'nobody' returned an int"):
        RunCodegen()(parted)


@pytest.mark.parametrize("library", ["cublas", "cudnn"])
def test_without_cupy_a_gpus_libraries_refuse(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    assert backend.get_patterns_with_prefix(f"{library}.")
    pattern = [(f"{library}.any", is_op("relax.nn.relu")(wildcard()))]
    parted = FuseOpsByPattern(pattern, annotate_codegen=True)(Dense)
    with pytest.raises(MissingDependencyError, match=f"{library}: CuPy is not installed"):
        RunCodegen()(parted)
