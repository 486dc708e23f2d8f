"""SpecializePrimFuncBasedOnCallSite, AttachExternModules: what calls know and whom they call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb
from mlcnb.core.errors import PassError
from mlcnb.relax import VirtualMachine, build
from mlcnb.relax import transform as X
from mlcnb.relax.frontend import nn
from mlcnb.script import ir as I
from mlcnb.script import parse
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.relax.harness import check_pass


@I.ir_module
class Placed:
    """The input and the last result lie in a memory of their own; the loops do not know."""

    I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global.texture")]})

    @T.prim_func(private=True)
    def relu(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.block("y"):
                vi = T.axis.spatial(4, i)
                y[vi] = T.max(x[vi], T.float32(0))

    @R.function
    def main(x: R.Tensor((4,), "float32", "llvm:0:global.texture")):
        cls = Placed
        gv = R.call_tir(
            cls.relu, (x,), out_sinfo=R.Tensor((4,), "float32", "llvm:0:global.texture")
        )
        return gv


def test_buffers_lie_where_the_tensors_of_a_call_lie() -> None:
    @I.ir_module
    class After:
        I.module_global_infos({"vdevice": [I.vdevice("llvm", 0, "global.texture")]})

        @T.prim_func(private=True)
        def relu(
            x: T.Buffer((4,), "float32", scope="global.texture"),
            y: T.Buffer((4,), "float32", scope="global.texture"),
        ):
            for i in range(4):
                with T.block("y"):
                    vi = T.axis.spatial(4, i)
                    y[vi] = T.max(x[vi], T.float32(0))

        @R.function
        def main(x: R.Tensor((4,), "float32", "llvm:0:global.texture")):
            cls = After
            gv = R.call_tir(
                cls.relu, (x,), out_sinfo=R.Tensor((4,), "float32", "llvm:0:global.texture")
            )
            return gv

    check_pass(X.SpecializePrimFuncBasedOnCallSite(), Placed, After, args=False)


@I.ir_module
class Open:
    """One function of open sizes, called with two sets of them; one is public."""

    @T.prim_func(private=True)
    def double(a: T.handle, b: T.handle):
        n = T.int64()
        x = T.match_buffer(a, (n, 3), "float32")
        y = T.match_buffer(b, (n, 3), "float32")
        for i, j in T.grid(n, 3):
            with T.block("y"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] + x[vi, vj]

    @T.prim_func
    def sign(a: T.handle, b: T.handle):
        n = T.int64()
        x = T.match_buffer(a, (n,), "float32")
        y = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            with T.block("y"):
                vi = T.axis.spatial(n, i)
                y[vi] = -x[vi]

    @R.function
    def main(
        x: R.Tensor((2, 3), "float32"),
        y: R.Tensor(("m", 3), "float32"),
        z: R.Tensor((5,), "float32"),
    ):
        m = T.int64()
        cls = Open
        a = R.call_tir(cls.double, (x,), out_sinfo=R.Tensor((2, 3), "float32"))
        b = R.call_tir(cls.double, (a,), out_sinfo=R.Tensor((2, 3), "float32"))
        c = R.call_tir(cls.double, (y,), out_sinfo=R.Tensor((m, 3), "float32"))
        d = R.call_tir(cls.sign, (z,), out_sinfo=R.Tensor((5,), "float32"))
        return (b, c, d)


def test_sizes_that_are_known_where_it_is_called() -> None:
    @I.ir_module
    class After:
        @T.prim_func(private=True)
        def double(a: T.handle, b: T.handle):
            n = T.int64()
            x = T.match_buffer(a, (n, 3), "float32")
            y = T.match_buffer(b, (n, 3), "float32")
            for i, j in T.grid(n, 3):
                with T.block("y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] + x[vi, vj]

        @T.prim_func(private=True)
        def double1(a: T.handle, b: T.handle):
            x = T.match_buffer(a, (T.int64(2), 3), "float32")
            y = T.match_buffer(b, (T.int64(2), 3), "float32")
            for i, j in T.grid(T.int64(2), 3):
                with T.block("y"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = x[vi, vj] + x[vi, vj]

        @T.prim_func
        def sign(a: T.handle, b: T.handle):
            n = T.int64()
            x = T.match_buffer(a, (n,), "float32")
            y = T.match_buffer(b, (n,), "float32")
            for i in range(n):
                with T.block("y"):
                    vi = T.axis.spatial(n, i)
                    y[vi] = -x[vi]

        @T.prim_func(private=True)
        def sign1(a: T.handle, b: T.handle):
            x = T.match_buffer(a, (T.int64(5),), "float32")
            y = T.match_buffer(b, (T.int64(5),), "float32")
            for i in range(T.int64(5)):
                with T.block("y"):
                    vi = T.axis.spatial(T.int64(5), i)
                    y[vi] = -x[vi]

        @R.function
        def main(
            x: R.Tensor((2, 3), "float32"),
            y: R.Tensor(("m", 3), "float32"),
            z: R.Tensor((5,), "float32"),
        ):
            m = T.int64()
            cls = After
            a = R.call_tir(cls.double1, (x,), out_sinfo=R.Tensor((2, 3), "float32"))
            b = R.call_tir(cls.double1, (a,), out_sinfo=R.Tensor((2, 3), "float32"))
            c = R.call_tir(cls.double, (y,), out_sinfo=R.Tensor((m, 3), "float32"))
            d = R.call_tir(cls.sign1, (z,), out_sinfo=R.Tensor((5,), "float32"))
            return (b, c, d)

    rng = np.random.default_rng(0)
    args = [rng.standard_normal(s).astype("float32") for s in ((2, 3), (4, 3), (5,))]
    check_pass(X.SpecializePrimFuncBasedOnCallSite(), Open, After, args=args)


@I.ir_module
class Plain:
    """In place, with a size that is a scalar of the function, and a private one by itself."""

    @T.prim_func(private=True)
    def fill(x: T.Buffer((4,), "float32"), n: T.int64):
        for i in range(4):
            with T.block("x"):
                vi = T.axis.spatial(4, i)
                x[vi] = x[vi] + T.Cast("float32", n)

    @R.function
    def main(x: R.Tensor((4,), "float32"), s: R.Shape(["n"])):
        n = T.int64()
        cls = Plain
        gv = R.call_tir_inplace(
            cls.fill, (x,), out_sinfo=R.Tensor((4,), "float32"), inplace_indices=[0],
            tir_vars=R.shape([n]),
        )  # fmt: skip
        return gv


@pytest.mark.parametrize("mod", [Plain, mlcnb.IRModule({"relu": Placed["relu"]})])
def test_calls_that_say_nothing_new(mod: Any) -> None:
    assert X.SpecializePrimFuncBasedOnCallSite()(mod) is mod


def test_a_call_that_does_not_fit_is_refused() -> None:
    text = Plain.script().replace("x: R.Tensor((4,)", "x: R.Tensor((5,)")
    with pytest.raises(PassError, match=r"fill takes x of float32 \[4\], but is called with"):
        X.SpecializePrimFuncBasedOnCallSite()(parse(text))


def add_three(x: Any, y: Any, out: Any) -> None:
    """A function from elsewhere."""
    out[...] = x + y + 3


class Adds(nn.Module):
    """Calls a function that it brings."""

    def forward(self, x: nn.Tensor, y: nn.Tensor) -> nn.Tensor:
        """The sum, as somebody else computes it."""
        ext = nn.ExternModule(
            {"test.add_three": lambda a, _b: nn.Tensor.placeholder(a.shape, a.dtype)}
        )
        nn.add_extern(ext)
        return ext["test.add_three"](x, y)


SPEC = {"forward": {"x": nn.spec.Tensor([4], "float32"), "y": nn.spec.Tensor([4], "float32")}}


def test_a_module_takes_its_functions_with_it() -> None:
    mod, _, externs = Adds().export_tvm(SPEC, allow_extern=True)
    mlcnb.register_func("test.add_three", add_three, override=True)
    got = X.AttachExternModules(externs)(mod)
    (kept,) = got.attrs["external_mods"]
    assert (kept.library, kept.symbols) == ("extern", ("test.add_three",))
    check_pass(X.AttachExternModules(externs), mod, got, args=False)
    mlcnb.register_func("test.add_three", lambda *_: None, override=True)
    x, y = np.arange(4, dtype="float32"), np.ones(4, "float32")
    vm = VirtualMachine(build(got, "llvm"), mlcnb.cpu())
    np.testing.assert_array_equal(vm["forward"](x, y), x + y + 3)


def test_modules_that_bring_nothing_and_what_is_refused() -> None:
    mlcnb.register_func("test.add_three", add_three, override=True)
    mod, _, externs = Adds().export_tvm(SPEC, allow_extern=True)
    assert X.AttachExternModules([])(mod) is mod
    got = X.AttachExternModules(externs)(mod)
    assert X.AttachExternModules(externs)(got) is got
    mlcnb.register_func("test.add_three", lambda *_: None, override=True)
    with pytest.raises(PassError, match=r"the module has another function 'test\.add_three'"):
        X.AttachExternModules(externs)(got)
    with pytest.raises(PassError, match="int is no module of functions"):
        X.AttachExternModules([3])(mod)
