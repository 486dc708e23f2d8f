"""LambdaLift and the passes on virtual devices."""

from __future__ import annotations

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb.core.errors import PassError
from mlcnb.core.node import rewrite
from mlcnb.ir import assert_structural_equal
from mlcnb.ir.expr import GlobalVar
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.transform import LambdaLift, RealizeVDevice, UpdateVDevice
from mlcnb.script import from_source
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from mlcnb.testing import evaluate


def test_a_local_function() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main_inner():
            return R.tuple()

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            @R.function
            def inner(a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")) -> R.Tensor(
                (2, 3), "float32"
            ):
                s = R.add(a, b)
                return s

            gv = inner(x, y)
            return gv

    @I.ir_module
    class After:
        @R.function
        def main_inner():
            return R.tuple()

        @R.function(private=True)
        def main_inner_0(
            a: R.Tensor((2, 3), "float32"), b: R.Tensor((2, 3), "float32")
        ) -> R.Tensor((2, 3), "float32"):
            s = R.add(a, b)
            return s

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            cls = After
            gv = cls.main_inner_0(x, y)
            return gv

    got = LambdaLift()(Before)
    assert_well_formed(got)
    assert_structural_equal(got, After)
    assert LambdaLift()(got) is got
    x, y = np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")
    np.testing.assert_array_equal(evaluate(got, x, y), x + y)


def test_a_closure() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            @R.function
            def inner(a: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
                s = R.add(a, x)
                return s

            gv = inner(y)
            return gv

    @I.ir_module
    class After:
        @R.function(private=True)
        def main_inner(a: R.Tensor((2, 3), "float32"), x: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            s = R.add(a, x)
            return s

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            cls = After
            inner = R.make_closure(cls.main_inner, (x,))
            gv = R.invoke_pure_closure(inner, (y,), sinfo_args=R.Tensor((2, 3), "float32"))
            return gv

    got = LambdaLift()(Before)
    assert_well_formed(got)
    assert_structural_equal(got, After)
    assert_structural_equal(from_source(got.script()), got)
    x, y = np.ones((2, 3), "float32"), np.full((2, 3), 2, "float32")
    np.testing.assert_array_equal(evaluate(got, x, y), evaluate(Before, x, y))
    np.testing.assert_array_equal(tvm.compile(got, target="llvm")(x, y), x + y)


def test_a_local_function_that_calls_itself() -> None:
    @I.ir_module
    class Plain:
        @R.function(private=True)
        def itself(i: R.Tensor((), "int32"), s: R.Tensor((2, 3), "float32")) -> R.Tensor(
            (2, 3), "float32"
        ):
            return s

        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            cls = Plain

            @R.function
            def loop(i: R.Tensor((), "int32"), s: R.Tensor((2, 3), "float32")) -> R.Tensor(
                (2, 3), "float32"
            ):
                more = R.less(i, R.const(3, "int32"))
                if more:
                    j = R.add(i, R.const(1, "int32"))
                    t = R.add(s, x)
                    r = cls.itself(j, t)
                else:
                    r = s
                return r

            gv = loop(R.const(0, "int32"), x)
            return gv

    loop = Plain["main"].body.bindings[0].var

    def calls_itself(n):
        named = isinstance(n, GlobalVar) and n.name_hint == "itself"
        return loop if named else None

    main = rewrite(Plain["main"], calls_itself)
    got = LambdaLift()(Plain.with_function("main", main).without_functions(["itself"]))
    assert_well_formed(got)
    assert sorted(k.name_hint for k in got) == ["main", "main_loop"]
    assert [p.name_hint for p in got["main_loop"].params] == ["i", "s", "x"]
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(evaluate(got, x), 4 * x)


def test_nothing_to_lift() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            gv = R.exp(x)
            return gv

    assert LambdaLift()(Module) is Module


def test_every_tensor_on_another_device() -> None:
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 0)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32", "cuda"), y: R.Tensor((2, 3), "float32", "cuda")):
            z = R.add(x, y)
            return z

    @I.ir_module
    class After:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda", 1)]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32", "cuda"), y: R.Tensor((2, 3), "float32", "cuda")):
            z: R.Tensor((2, 3), "float32", "cuda") = R.add(x, y)
            return z

    got = UpdateVDevice(tvm.ir.VDevice("cuda", 1), 1)(Before)
    assert_structural_equal(got, After)
    with pytest.raises(PassError, match="the module has 2 virtual devices: there is none at 2"):
        UpdateVDevice(tvm.ir.VDevice("cuda", 1), 2)(Before)


def test_devices_spread_and_wishes_become_moves() -> None:
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("cuda")]})

        @R.function
        def main(x: R.Tensor((2, 3), "float32"), y: R.Tensor((2, 3), "float32")):
            with R.dataflow():
                a = R.hint_on_device(x, R.device(2, 0))
                b = R.add(a, y)
                c = R.hint_on_device(b, R.device(1, 0))
                gv = R.exp(c)
                R.output(gv)
            return gv

    got = RealizeVDevice()(Before)
    assert_well_formed(got)
    infos = {b.var.name_hint: b.var.struct_info.vdevice.kind for b in got["main"].body.bindings}
    assert infos == {"a": "cuda", "b": "cuda", "c": "llvm", "gv": "llvm"}
    assert [p.struct_info.vdevice.kind for p in got["main"].params] == ["cuda", "cuda"]
    assert got.script().count("R.to_vdevice(") == 1
    assert_structural_equal(from_source(got.script()), got)
    x = np.ones((2, 3), "float32")
    np.testing.assert_allclose(evaluate(got, x, x), np.exp(2 * x), 1e-6)


def test_a_result_of_several_parts_says_where_each_lies() -> None:
    @I.ir_module
    class Before:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("metal", 0, "global")]})

        @R.function
        def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")) -> R.Tuple(
            R.Tensor((2,), "float32", "metal"), R.Tuple(R.Tensor((2,), "float32", "llvm"))
        ):
            with R.dataflow():
                a = R.exp(x)
                b = R.hint_on_device(y, R.device(1, 0))
                R.output(a, b)
            return (a, (b,))

    @I.ir_module
    class After:
        I.module_global_infos({"vdevice": [I.vdevice("llvm"), I.vdevice("metal", 0, "global")]})

        @R.function
        def main(
            x: R.Tensor((2,), "float32", "metal"), y: R.Tensor((2,), "float32", "llvm")
        ) -> R.Tuple(
            R.Tensor((2,), "float32", "metal"), R.Tuple(R.Tensor((2,), "float32", "llvm"))
        ):
            with R.dataflow():
                a: R.Tensor((2,), "float32", "metal") = R.exp(x)
                b: R.Tensor((2,), "float32", "llvm") = y
                R.output(a, b)
            return (a, (b,))

    assert_structural_equal(RealizeVDevice()(Before), After)


def test_modules_without_devices_stay() -> None:
    @I.ir_module
    class Module:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")):
            gv = R.exp(x)
            return gv

    assert RealizeVDevice()(Module) is Module


def test_a_lifted_function_has_sizes_of_its_own() -> None:
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor(("n", "m"), "float32"), y: R.Tensor(("m",), "float32")):
            n = T.int64()
            m = T.int64()

            @R.function
            def inner(a: R.Tensor((n, m), "float32")):
                return R.reshape(R.add(a, y), R.shape([n * m]))

            return inner(x)

    made = LambdaLift()(Before)
    assert_structural_equal(made, from_source(made.script()))
    shared = set(made["main"].params[0].struct_info.dims)
    assert not shared & set(made["main_inner"].params[0].struct_info.dims)
    x, y = np.ones((2, 3), np.float32), np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(made, x, y), evaluate(Before, x, y))
