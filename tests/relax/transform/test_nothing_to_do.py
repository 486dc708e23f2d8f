"""Where a pass must do nothing: it gives back the very module, though that comes near to it."""

from __future__ import annotations

from typing import Any

import pytest

from mlcnb.meta_schedule.database import MemoryDatabase
from mlcnb.relax import transform as X
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T


@I.ir_module
class Graph:
    """Weights are parameters, kernels of a grouped convolution are 3 x 3, what is put around an
    image is not 0, and only one of quantize and dequantize is there.
    """

    @R.function
    def main(
        x: R.Tensor((1, 4, 6, 6), "float32"),
        w: R.Tensor((4, 2, 3, 3), "float32"),
        m: R.Tensor((6, 6), "float32"),
        d: R.Tensor((6, 6), "float64"),
        b: R.Tensor((6, 6), "int8"),
        t: R.Tuple(R.Tensor((4,), "float32"), R.Tensor((4,), "float32")),
    ):
        with R.dataflow():
            pad = R.nn.pad(x, (0, 0, 0, 0, 1, 1, 1, 1), pad_value=1.0)
            conv = R.nn.conv2d(pad, w, groups=2)
            flat = R.reshape(conv, (4, 36))
            rows = R.nn.softmax(R.matmul(x, m))
            wide = R.matmul(d, d)
            bytes_ = R.qnn.matmul(b, b)
            few = R.quantize(rows, R.const(0.5, "float32"), R.const(0, "int8"), axis=0)
            R.output(flat, rows, wide, bytes_, few)
        return (flat, rows, wide, bytes_, few, t)


@I.ir_module
class Loops:
    """Lowered as far as it goes; what is allocated is returned."""

    @T.prim_func
    def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        T.func_attr({"global_symbol": "relu", "op_pattern": 0})
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = T.max(x[vi], T.float32(0))

    @R.function(pure=False)
    def main(x: R.Tensor((4,), "float32")):
        cls = Loops
        storage = R.vm.alloc_storage(R.shape([16]), 0, "uint8", "global")
        alloc = R.vm.alloc_tensor(storage, 0, R.shape([4]), "float32")
        _ = cls.relu(x, alloc)
        return alloc


@I.ir_module
class Recursive:
    """A private function that calls itself, and one that is handed around."""

    @R.function(private=True)
    def count(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        cls = Recursive
        again = R.less(x, R.const(10, "int64"))
        if again:
            more = R.add(x, R.const(1, "int64"))
            y = cls.count(more)
        else:
            y = x
        return y

    @R.function
    def main(x: R.Tensor((), "int64")) -> R.Tensor((), "int64"):
        cls = Recursive
        y = cls.count(x)
        return y


@pytest.mark.parametrize(
    "pass_",
    [
        X.BindParams("main", {}), X.BindSymbolicVars({}), X.BundleModelParams(),
        X.CanonicalizeBindings(), X.CheckSizes(), X.DecomposeOpsForTraining(),
        X.ExpandTupleArguments(), X.FoldPad(), X.FoldBatchNorm(), X.FuseTIR(),
        X.ConvAlongRows(), X.ConvByPlanes(), X.ConvTransposeToConv(),
        X.GroupConvToMatmul(), X.IntegerOps(),
        X.LazyTransformParams(), X.MergeCompositeFunctions(), X.NarrowProducts(),
        X.PackMatmul(), X.PackQuantizedMatmul(), X.RemoveRedundantReshape(),
        X.RewriteDataflowReshape(), X.RunCodegen(),
        X.MetaScheduleApplyDatabase(),
    ],
    ids=lambda p: p.name,
)  # fmt: skip
def test_graphs(pass_: Any) -> None:
    with MemoryDatabase():
        assert pass_(Graph) is Graph


@pytest.mark.parametrize(
    "pass_",
    [
        X.AnnotateTIROpPattern(), X.AttachGlobalSymbol(), X.CallTIRRewrite(),
        X.KillAfterLastUse(), X.LowerAllocTensor(), X.LowerRuntimeBuiltin(),
        X.RemovePurityChecking(), X.StaticPlanBlockMemory(), X.ToNonDataflow(),
    ],
    ids=lambda p: p.name,
)  # fmt: skip
def test_loops(pass_: Any) -> None:
    assert pass_(Loops) is Loops


@I.ir_module
class Private:
    """Nothing is called from outside."""

    @R.function(private=True)
    def inner(x: R.Tensor((4,), "float32")):
        gv = R.add(x, x)
        return gv


@pytest.mark.parametrize("pass_", [X.LazyGetInput(), X.LazySetOutput()], ids=lambda p: p.name)
def test_functions_that_nobody_calls_from_outside(pass_: Any) -> None:
    assert pass_(Private) is Private


@I.ir_module
class OnOneDevice:
    @R.function
    def main(x: R.Tensor((4,), "float32", "llvm")) -> R.Tensor((4,), "float32", "llvm"):
        gv = R.add(x, x)
        return gv

    I.module_global_infos({"vdevice": [I.vdevice("llvm")]})


def test_a_device_that_all_lie_on() -> None:
    pass_ = X.UpdateVDevice(OnOneDevice.global_infos["vdevice"][0], 0)
    assert pass_(OnOneDevice) is OnOneDevice


@I.ir_module
class NoGraph:
    @T.prim_func
    def main(n: T.int64, x: T.Buffer((4,), "float32")):
        x[n] = T.float32(0)


def test_sizes_of_loops_are_their_own() -> None:
    assert X.VMShapeLower()(NoGraph) is NoGraph


@pytest.mark.parametrize(
    "pass_", [X.InlinePrivateFunctions(), X.ToMixedPrecision()], ids=lambda p: p.name
)
def test_recursion_and_integers_stay(pass_: Any) -> None:
    assert pass_(Recursive) is Recursive
