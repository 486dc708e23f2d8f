"""nn.op: each operator leaves the call that it stands for; what is not there says so."""

import numpy as np
import pytest

from mlcnb import relax, te
from mlcnb.core.errors import ArgumentError, MLCError, UnsupportedOpError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.frontend import nn
from mlcnb.relax.frontend.nn import Tensor, op
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


class Calls(nn.Module):
    """A module that applies one function."""

    def __init__(self, function):
        self.function = function

    def forward(self, x, y=None):
        return self.function(x) if y is None else self.function(x, y)


def exported(function, *shapes, dtype="float32", debug=False):
    named = zip("xy", shapes, strict=False)
    spec = {"forward": {n: nn.spec.Tensor(shape, dtype) for n, shape in named}}
    return Calls(function).export_tvm(spec, debug=debug)[0]


ONE = [
    (op.square, R.square),
    (op.sqrt, R.sqrt),
    (op.rsqrt, R.rsqrt),
    (op.exp, R.exp),
    (op.log, R.log),
    (op.floor, R.floor),
    (op.negative, R.negative),
    (op.sigmoid, R.sigmoid),
    (op.relu6, R.nn.relu6),
    (op.erf, R.erf),
    (lambda x: -x, R.negative),
    (lambda x: x + 1, lambda x: R.add(x, R.const(1, "float32"))),
    (lambda x: 2 - x, lambda x: R.subtract(R.const(2, "float32"), x)),
    (lambda x: 1 / x, lambda x: R.divide(R.const(1, "float32"), x)),
    (lambda x: x.maximum(0), lambda x: R.maximum(x, R.const(0, "float32"))),
    (lambda x: x.astype("float16"), lambda x: R.astype(x, "float16")),
    (lambda x: x.reshape(2, -1), lambda x: R.reshape(x, R.shape([2, 12]))),
    (lambda x: x.reshape([0, 0, -1]), lambda x: R.reshape(x, R.shape([2, 3, 4]))),
    (lambda x: x.permute_dims(1, 0, 2), lambda x: R.permute_dims(x, axes=[1, 0, 2])),
    (lambda x: x.permute_dims(), lambda x: R.permute_dims(x)),
    (lambda x: x.repeat(2, axis=1), lambda x: R.repeat(x, repeats=2, axis=1)),
    (lambda x: op.softplus(x, 2.0, 5.0), lambda x: R.nn.softplus(x, beta=2.0, threshold=5.0)),
    (lambda x: op.softmax(x, axis=1), lambda x: R.nn.softmax(x, axis=1)),
    (lambda x: op.sum(x, [1, 2], True), lambda x: R.sum(x, axis=[1, 2], keepdims=True)),
    (lambda x: op.mean(x, 1), lambda x: R.mean(x, axis=1)),
    (lambda x: op.max(x, axis=0), lambda x: R.max(x, axis=0)),
    (lambda x: op.min(x, axis=0), lambda x: R.min(x, axis=0)),
    (lambda x: op.unsqueeze(x, 0), lambda x: R.expand_dims(x, axis=0)),
    (lambda x: op.squeeze(op.unsqueeze(x, 0), 0), lambda x: R.squeeze(R.expand_dims(x, 0), [0])),
    (lambda x: op.concat([x, x], dim=0), lambda x: R.concat([x, x], axis=0)),
    (lambda x: op.flatten(x, 1), lambda x: R.reshape(x, R.shape([2, 12]))),
    (
        lambda x: op.broadcast_to(x, [5, 2, 3, 4]),
        lambda x: R.broadcast_to(x, R.shape([5, 2, 3, 4])),
    ),
    (lambda x: op.triu(x, 1), lambda x: R.triu(x, k=1)),
    (lambda x: op.tril(x), lambda x: R.tril(x, k=0)),
    (lambda x: op.cumsum(x, 1, exclusive=True), lambda x: R.cumsum(x, axis=1, exclusive=True)),
    (lambda x: op.sort(x, descending=True), lambda x: R.sort(x, axis=-1, descending=True)),
    (lambda x: op.argsort(x), lambda x: R.argsort(x, axis=-1, dtype="int32")),
    (lambda x: op.topk(x, 2, ret_type="values"), lambda x: R.topk(x, k=2, ret_type="values")),
    (lambda x: op.pad(x, [0, 0, 1, 2, 0, 0]), lambda x: R.nn.pad(x, (0, 0, 1, 2, 0, 0))),
    (lambda x: op.full([2], 10), lambda x: R.full(R.shape([2]), R.const(10, "float32"), "float32")),
    (lambda x: op.zeros([2], "float16"), lambda x: R.zeros(R.shape([2]), "float16")),
    (lambda x: op.ones([2]), lambda x: R.ones(R.shape([2]), "float32")),
    (lambda x: op.arange(4), lambda x: R.arange(0, 4, 1, dtype="float32")),
    (lambda x: op.clip(x, -1, 1), lambda x: R.clip(x, -1, 1)),
    (
        lambda x: op.layer_norm(x, 4, op.ones([4]), op.zeros([4])),
        lambda x: R.nn.layer_norm(
            x, R.ones(R.shape([4]), "float32"), R.zeros(R.shape([4]), "float32"), axes=[-1]
        ),
    ),
]


@pytest.mark.parametrize(("function", "operator"), ONE)
def test_of_one_tensor(function, operator):
    @R.function
    def forward(x: R.Tensor((2, 3, 4), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            made = operator(x)
            gv = made
            R.output(gv)
        return gv

    assert_structural_equal(exported(function, (2, 3, 4))["forward"], forward, True)


TWO = [
    (op.add, R.add),
    (op.subtract, R.subtract),
    (op.multiply, R.multiply),
    (op.divide, R.divide),
    (op.power, R.power),
    (op.maximum, R.maximum),
    (op.minimum, R.minimum),
    (op.matmul, R.matmul),
    (op.greater, R.greater),
    (op.greater_equal, R.greater_equal),
    (op.less, R.less),
    (op.less_equal, R.less_equal),
    (op.equal, R.equal),
    (op.not_equal, R.not_equal),
    (lambda x, y: x < y, R.less),
    (lambda x, y: x @ y, R.matmul),
    (lambda x, y: op.where(x > y, x, 0), lambda x, y: R.where(x > y, x, R.const(0, "float32"))),
]


@pytest.mark.parametrize(("function", "operator"), TWO)
def test_of_two_tensors(function, operator):
    @R.function
    def forward(x: R.Tensor((4, 4), "float32"), y: R.Tensor((4, 4), "float32")):
        R.func_attr({"num_input": 2})
        with R.dataflow():
            made = operator(x, y)
            gv = made
            R.output(gv)
        return gv

    assert_structural_equal(exported(function, (4, 4), (4, 4))["forward"], forward, True)


def test_pieces():
    @R.function
    def forward(x: R.Tensor((8,), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            chunk = R.split(x, indices_or_sections=2, axis=0)
            a = chunk[0]
            b = chunk[1]
            cut = R.split(x, indices_or_sections=[3], axis=0)
            c = cut[0]
            d = cut[1]
            gv = (a, b, c, d)
            R.output(gv)
        return gv

    made = exported(lambda x: (*op.chunk(x, 2), *op.split(x, [3])), (8,))
    assert_structural_equal(made["forward"], forward)


def test_interpolate():
    def resized(x):
        sizes = op.interpolate(x, size=[8, 6]), op.interpolate(x, scale_factor=2.0, mode="bilinear")
        return (*sizes, op.interpolate(x, 5, mode="bicubic", align_corners=True))

    @R.function
    def forward(x: R.Tensor((1, 3, 4, 4), "float32")):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            a = R.image.resize2d(
                x,
                R.shape([8, 6]),
                method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric",
                rounding_method="round",
            )
            b = R.image.resize2d(x, R.shape([8, 8]), method="linear")
            c = R.image.resize2d(
                x,
                R.shape([5, 5]),
                method="cubic",
                coordinate_transformation_mode="align_corners",
            )
            gv = (a, b, c)
            R.output(gv)
        return gv

    assert_structural_equal(exported(resized, (1, 3, 4, 4))["forward"], forward)


def test_tensor_expr_op():
    @I.ir_module
    class Expected:
        @T.prim_func(private=True)
        def add_one(A: T.Buffer((T.int64(10),), "float32"), B: T.Buffer((T.int64(10),), "float32")):
            T.func_attr({"mark": 1, "tir.noalias": True})
            for i in range(T.int64(10)):
                with T.block("compute"):
                    v_i = T.axis.spatial(T.int64(10), i)
                    B[v_i] = A[v_i] + T.float32(1)

        @R.function
        def forward(x: R.Tensor((10,), "float32")) -> R.Tensor((10,), "float32"):
            R.func_attr({"num_input": 1})
            cls = Expected
            with R.dataflow():
                lv = R.call_tir(cls.add_one, (x,), out_sinfo=R.Tensor((10,), "float32"))
                gv: R.Tensor((10,), "float32") = lv
                R.output(gv)
            return gv

    def add_one(x):
        return te.compute(x.shape, lambda i: x[i] + 1.0, name="compute")

    made = exported(lambda x: op.tensor_expr_op(add_one, "add_one", [x], attrs={"mark": 1}), (10,))
    assert_structural_equal(made, Expected)


@T.prim_func(private=True)
def scaled(a: T.handle, b: T.handle, factor: T.int64):
    n = T.int64()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        with T.block("B"):
            v = T.axis.spatial(n, i)
            B[v] = A[v] * T.Cast("float32", factor)


@pytest.mark.parametrize("inplace", [False, True])
def test_tensor_ir_op(inplace):
    class Model(nn.Module):
        def forward(self, x: Tensor, factor: int):
            out = Tensor.placeholder(x.shape, x.dtype)
            if inplace:
                return op.tensor_ir_inplace_op(grown, "grown", [x, factor], [0], out)
            return op.tensor_ir_op(scaled, "scaled", [x, factor], out)

    @T.prim_func(private=True)
    def grown(a: T.handle, factor: T.int64):
        n = T.int64()
        A = T.match_buffer(a, (n,), "float32")
        for i in range(n):
            with T.block("A"):
                v = T.axis.spatial(n, i)
                A[v] = A[v] * T.Cast("float32", factor)

    spec = {"forward": {"x": nn.spec.Tensor(["n"], "float32"), "factor": int}}
    mod, _ = Model().export_tvm(spec)
    call = mod["forward"].body.bindings[0].value
    assert call.op.name == ("relax.call_tir_inplace" if inplace else "relax.call_tir")
    assert call.args[2].values == mod["forward"].params[1].struct_info.values
    if not inplace:
        jitted = Model().jit(spec, out_format="numpy")
        np.testing.assert_array_equal(jitted(np.arange(3, dtype="f4"), 2), [0, 2, 4])


def test_refusals():
    def check(function, kind, message):
        with pytest.raises(kind) as caught:
            exported(function, (2, 2))
        assert str(caught.value) == message

    check(
        lambda x: op.ccl_allreduce(x),
        UnsupportedOpError,
        "nn.op.ccl_allreduce: programs run on one machine here\n"
        "hint: export the model for one worker",
    )
    check(
        lambda x: op.renormalize_top_p_top_k_prob(x, x, x, x),
        UnsupportedOpError,
        "nn.op.renormalize_top_p_top_k_prob is not supported\n"
        "hint: write it with op.cumsum, op.where and op.multinomial_from_uniform",
    )
    check(
        lambda x: op.gelu(x, "fast"),
        ArgumentError,
        "nn.op.gelu: no approximation 'fast'\nhint: None or \"tanh\"",
    )
    check(lambda x: op.add(1, 2), ArgumentError, "nn.op.add: 1 and 2 are no nn.Tensor")
    check(
        lambda x: op.add(x, "y"),
        ArgumentError,
        "nn: str is no nn.Tensor and no number: 'y'\n"
        "hint: nn.Tensor.from_const(array) for a constant",
    )
    check(
        lambda x: op.print_(x),
        MLCError,
        "Debugging is only supported when debug mode is on.\n"
        "hint: module.export_tvm(spec, debug=True), or jit(spec, debug=True)",
    )
    check(
        lambda x: op.tensor_ir_op(scaled, "scaled", [x, "two"], x),
        ArgumentError,
        "Unsupported type: tensor_ir_op args expect Tensor or ShapeExpr or PrimExpr, but got str",
    )
    check(
        lambda x: op.layer_norm(x, 3),
        ArgumentError,
        'nn.op.layer_norm: Tensor([2, 2], "float32") does not end with the lengths [3]',
    )


def test_an_export_that_fails_leaves_nothing_open():
    with pytest.raises(ZeroDivisionError):
        exported(lambda x: x + 1 / 0, (2,))
    assert relax.BlockBuilder.current() is None
    exported(lambda x: x + 1, (2,))
