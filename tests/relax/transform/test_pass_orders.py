"""Passes in any order over small models: results stay, and the text of every stage round-trips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import relax
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.module import IRModule
from mlcnb.relax import transform as X
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import assert_same_results, evaluate
from tests.relax.graphs import graphs
from tests.relax.harness import inputs_of

#: passes that keep the parameters and results of `main`, whatever ran before
ANYWHERE = [
    X.AdjustMatmulOrder(),
    X.AnnotateTIROpPattern(),
    X.AttachAttrLayoutFreeBuffers(),
    X.AttachGlobalSymbol(),
    X.CanonicalizeBindings(),
    X.CombineParallelMatmul(),
    X.ComputePrimValue(),
    X.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}),
    X.ConvertToDataflow(),
    X.DeadCodeElimination(),
    X.DecomposeOpsForInference(),
    X.DecomposeOpsForTraining(),
    X.EliminateCommonSubexpr(),
    X.ExpandMatmulOfSum(),
    X.ExpandTupleArguments(),
    X.FoldConstant(),
    X.FuseTransposeMatmul(),
    X.InlinePrivateFunctions(),
    X.LambdaLift(),
    X.LegalizeOps(skip_ops=["relax.matmul"]),
    X.Normalize(),
    X.NormalizeGlobalVar(),
    X.OptimizeLayoutTransform(),
    X.RemoveRedundantReshape(),
    X.RemoveUnusedOutputs(),
    X.RemoveUnusedParameters(),
    X.ReorderPermuteDimsAfterConcat(),
    X.ReorderTakeAfterMatmul(),
    X.SimplifyOps(),
    X.SplitLayoutRewritePreproc(),
    X.ToNonDataflow(),
    X.TopologicalSort("breadth-first"),
    X.TopologicalSort("depth-first", "from-outputs"),
]
#: what ends a pipeline: after it tensors are written to
ENDS = [
    [],
    [X.DataflowUseInplaceCalls()],
    [X.LegalizeOps(), X.AnnotateTIROpPattern(), X.FuseOps(), X.FuseTIR()],
    [X.LegalizeOps(), X.RewriteDataflowReshape(), X.ToNonDataflow(), X.RemovePurityChecking()]
    + [X.CallTIRRewrite(), X.StaticPlanBlockMemory(), X.LowerAllocTensor()]
    + [X.KillAfterLastUse(), X.LowerRuntimeBuiltin(), X.ComputePrimValue(), X.VMShapeLower()],
]

QUICK = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ORDERS = st.lists(st.sampled_from(ANYWHERE), min_size=1, max_size=7)


def check(mod: IRModule, passes: list[Any]) -> None:
    """Run passes one after the other; every stage is well formed, is text, and means the same."""
    args = inputs_of(mod["main"])
    expected = evaluate(mod, *args)
    for each in passes:
        made = each(mod)
        assert_well_formed(made)
        if made is not mod:
            assert_structural_equal(from_source(made.script(show_meta=True)), made)
        mod = made
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
    assert_same_results(expected, evaluate(mod, *copies), 1e-3, 1e-3)


@given(mod=graphs(max_steps=8), order=ORDERS, end=st.sampled_from(ENDS))
@QUICK
def test_random_graphs(mod: IRModule, order: list[Any], end: list[Any]) -> None:
    check(mod, [*order, *end])


@I.ir_module
class Attention:
    @R.function(private=True)
    def heads(
        x: R.Tensor((2, 4, 6), "float32"),
        w: R.Tuple(R.Tensor((6, 6), "float32"), R.Tensor((6, 6), "float32")),
    ):
        q = R.matmul(x, w[0])
        k = R.matmul(x, w[1])
        return (q, k, R.add(q, k))

    @R.function
    def main(
        x: R.Tensor((2, 4, 6), "float32"),
        wq: R.Tensor((6, 6), "float32"),
        wk: R.Tensor((6, 6), "float32"),
        wv: R.Tensor((6, 5), "float32"),
        g: R.Tensor((6,), "float32"),
    ):
        cls = Attention
        t = (wq, wk)
        qk = cls.heads(x, t)
        with R.dataflow():
            q = qk[0]
            k = qk[1]
            v = R.matmul(x, wv)
            s = R.matmul(q, R.permute_dims(k, axes=[0, 2, 1]))
            p = R.nn.softmax(R.divide(s, R.const(2.0, "float32")), axis=-1)
            o = R.matmul(p, v)
            n = R.nn.layer_norm(x, g, g, axes=[-1])
            gv = (R.reshape(R.reshape(o, (40,)), (8, 5)), n)
            R.output(gv)
        return gv


@I.ir_module
class Convolutions:
    @R.function
    def main(
        x: R.Tensor((1, 3, 6, 6), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        g: R.Tensor((4,), "float32"),
        f: R.Tensor((4, 5), "float32"),
        a: R.Tensor((4, 1), "float32"),
        b: R.Tensor((1, 5), "float32"),
    ):
        with R.dataflow():
            y = R.nn.conv2d(x, w, padding=(1, 1))
            n = R.nn.batch_norm(y, g, g, g, R.abs(g), axis=1, training=False)
            r = R.nn.relu(n[0])
            d = R.add(r, y)
            p = R.nn.max_pool2d(d, pool_size=(2, 2), strides=(2, 2))
            c = R.concat((p, p), axis=1)
            m = R.mean(c, axis=[2, 3])
            h = R.split(m, 2, axis=1)
            u = R.add(f, R.matmul(a, b))
            gv = R.matmul(h[0], u)
            R.output(gv)
        return gv


@I.ir_module
class Scalars:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), s: R.Prim("float32")):
        n = T.int64()
        with R.dataflow():
            a = R.layout_transform(x, index_map=lambda i, j: (i, j // 2, j % 2))
            b = R.layout_transform(a, index_map=lambda i, j, k: (i, j * 2 + k))
            c = R.multiply(b, s)
            d = R.add(R.prim_value(T.float32(0.5)), c)
            e = R.less(d, R.prim_value(T.float32(0)))
            gv = (R.reshape(d, (n * 4,)), R.prim_value(n * 2), e)
            R.output(gv)
        return gv


@I.ir_module
class Rows:
    @R.function
    def main(
        x: R.Tensor(("n", 4), "float32"),
        table: R.Tensor((4, 9), "float32"),
        which: R.Tensor((3,), "int64"),
        other: R.Tensor((4, 3), "float32"),
    ):
        with R.dataflow():
            a = R.matmul(x, R.take(table, which, axis=1))
            b = R.matmul(x, other)
            at = R.permute_dims(a)
            bt = R.permute_dims(b)
            gv = R.nn.gelu(R.concat((at, bt), axis=0))
            R.output(gv)
        return gv


@pytest.mark.slow
@pytest.mark.parametrize("model", [Attention, Convolutions, Rows, Scalars])
@given(order=ORDERS, end=st.sampled_from(ENDS))
@settings(QUICK, max_examples=4)
def test_small_models(model: IRModule, order: list[Any], end: list[Any]) -> None:
    check(model, [*order, *end])


@pytest.mark.parametrize("model", [Attention, Convolutions, Rows, Scalars])
def test_every_pass_alone(model: IRModule) -> None:
    for each in ANYWHERE:
        check(model, [each])


def exported() -> Any:
    """A small network as an exporter writes it, in ONNX, with weights of its own."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    shapes = {
        "w": (4, 3, 3, 3),
        "s": (4,),
        "b": (4,),
        "m": (4,),
        "v": (4,),
        "f": (5, 16),
        "c": (5,),
    }
    weights = {n: rng.uniform(0.5, 1.5, s).astype("float32") for n, s in shapes.items()}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["y", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["l"]),
        helper.make_node("Gemm", ["l", "f", "c"], ["g"], transB=1),
        helper.make_node("Softmax", ["g"], ["out"], axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 4])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_an_exported_network_in_the_virtual_machine() -> None:
    from onnx.reference import ReferenceEvaluator

    model = exported()
    x = np.random.default_rng(1).standard_normal((1, 3, 4, 4)).astype("float32")
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    mod = mlc.from_onnx(model)
    for each in (*ANYWHERE, X.DataflowUseInplaceCalls()):
        mod = each(mod)
        assert_well_formed(mod)
    ex = mlc.compile(mod, target="llvm", relax_pipeline="zero")
    got = relax.VirtualMachine(ex)["main"](x)
    np.testing.assert_allclose(got, expected, 1e-4, 1e-5)
