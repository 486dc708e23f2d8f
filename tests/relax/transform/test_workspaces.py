"""Layouts undone, buffers free to lie as they like, workspaces of libraries, TVM's options."""

from __future__ import annotations

from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import assert_well_formed
from mlcnb.relax.transform import (
    AllocateWorkspace,
    AttachAttrLayoutFreeBuffers,
    DeadCodeElimination,
    FuseOps,
    OptimizeLayoutTransform,
)
from mlcnb.script import ir as I
from mlcnb.script import relax as R
from mlcnb.script import tir as T
from tests.relax.harness import check_pass, same_numbers


def test_a_layout_that_is_changed_back() -> None:
    @R.function
    def before(x: R.Tensor((1, 8, 4, 4), "float32"), y: R.Tensor((1, 6, 4, 4), "float32")):
        with R.dataflow():
            a = R.layout_transform(x, src="NCHW", dst="NCHW4c")
            b = R.layout_transform(a, src="NCHW4c", dst="NCHW")
            c = R.layout_transform(y, src="NCHW", dst="NCHW4c")
            d = R.layout_transform(c, src="NCHW4c", dst="NCHW")
            gv = (R.nn.relu(b), d)
            R.output(gv)
        return gv

    @R.function
    def after(x: R.Tensor((1, 8, 4, 4), "float32"), y: R.Tensor((1, 6, 4, 4), "float32")):
        with R.dataflow():
            c = R.layout_transform(y, src="NCHW", dst="NCHW4c")
            d = R.layout_transform(c, src="NCHW4c", dst="NCHW")
            r = R.nn.relu(x)
            gv = (r, d)
            R.output(gv)
        return gv

    check_pass(OptimizeLayoutTransform(), before, after)


@I.ir_module
class Products:
    @T.prim_func(private=True)
    def matmul(
        x: T.Buffer((4, 4), "float32"),
        w: T.Buffer((4, 4), "float32"),
        y: T.Buffer((4, 4), "float32"),
    ):
        for i, j, k in T.grid(4, 4, 4):
            with T.block("y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    y[vi, vj] = T.float32(0)
                y[vi, vj] = y[vi, vj] + x[vi, vk] * w[vk, vj]

    @R.function
    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        R.func_attr({"num_input": 1})
        cls = Products
        with R.dataflow():
            a = R.call_tir(cls.matmul, (x, w), out_sinfo=R.Tensor((4, 4), "float32"))
            b = R.call_tir(cls.matmul, (a, x), out_sinfo=R.Tensor((4, 4), "float32"))
            R.output(b)
        return b


def test_buffers_of_weights_may_lie_as_they_like() -> None:
    got = AttachAttrLayoutFreeBuffers()(Products)
    assert_well_formed(got)
    free = {k.name_hint: f.attrs.get("layout_free_buffers") for k, f in got.items()}
    assert free == {"matmul": None, "main": None, "matmul1": (1,)}
    names = [b.value.args[0].name_hint for b in got["main"].body.bindings]
    assert names == ["matmul1", "matmul"]
    same_numbers(Products, got)
    assert AttachAttrLayoutFreeBuffers()(got) is got


def test_room_for_a_library_to_work_in() -> None:
    @I.ir_module
    class Before:
        @R.function(private=True)
        def lib(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Codegen": "lib", "WorkspaceSize": 64})
            y = R.exp(x)
            return y

        @R.function(private=True)
        def small(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"Codegen": "lib", "WorkspaceSize": 16})
            y = R.abs(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            cls = Before
            with R.dataflow():
                a = cls.lib(x)
                b = cls.small(a)
                R.output(b)
            return b

    @I.ir_module
    class After:
        @R.function(private=True)
        def lib(x: R.Tensor((4,), "float32"), workspace: R.Tensor((64,), "uint8")) -> R.Tensor(
            (4,), "float32"
        ):
            R.func_attr({"Codegen": "lib"})
            y = R.exp(x)
            return y

        @R.function(private=True)
        def small(x: R.Tensor((4,), "float32"), workspace: R.Tensor((64,), "uint8")) -> R.Tensor(
            (4,), "float32"
        ):
            R.func_attr({"Codegen": "lib"})
            y = R.abs(x)
            return y

        @R.function
        def main(x: R.Tensor((4,), "float32")):
            R.func_attr({"relax.force_pure": True})
            cls = After
            workspace_main = R.builtin.alloc_tensor(
                R.shape([64]), R.dtype("uint8"), R.prim_value(0), R.str("global")
            )
            with R.dataflow():
                a = cls.lib(x, workspace_main)
                b = cls.small(a, workspace_main)
                R.output(b)
            return b

    got = AllocateWorkspace()(Before)
    assert_structural_equal(got, After)
    assert AllocateWorkspace()(got) is got


def test_options_of_the_reference() -> None:
    assert FuseOps(fuse_opt_level=0)(Products) is Products
    assert DeadCodeElimination(entry_functions=None)(Products) is Products
