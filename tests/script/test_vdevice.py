"""Virtual devices, prints and assertions in text."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import mlcnb as tvm
from mlcnb import relax
from mlcnb.ir import load_json, save_json, structural_equal
from mlcnb.script import ir as I
from mlcnb.script import parse
from mlcnb.script import relax as R
from tests.script.roundtrip import assert_text


def test_a_module_with_devices_reads_back_as_itself():
    text = """
        @I.ir_module
        class Module:
            I.module_attrs({"attr": 10})
            I.module_global_infos({"dummy": [I.dummy_global_info()], "vdevice": [I.vdevice("llvm", 0, "global"), I.vdevice("cuda", 0, "global"), I.vdevice("cuda", 1, "global"), I.vdevice({"arch": "sm_80", "kind": "cuda"}, 0, "shared")]})
            @R.function
            def main(x: R.Tensor((2, 3), dtype="float32", vdevice="cuda:1"), y: R.Tensor((2, 3), dtype="float32", vdevice="llvm:0")) -> R.Tensor((2, 3), dtype="float32", vdevice="cuda:1"):
                y_1: R.Tensor((2, 3), dtype="float32", vdevice="cuda:1") = R.to_vdevice(y, dst_vdevice="cuda:1")
                z: R.Tensor((2, 3), dtype="float32", vdevice="cuda:1") = R.add(x, y_1)
                return z
    """  # noqa: E501
    mod = assert_text(text)
    found = mod["main"].params[0].struct_info.vdevice
    assert found == tvm.ir.VDevice("cuda", 1) and found.target.kind.name == "cuda"
    assert structural_equal(load_json(save_json(mod)), mod)


def test_a_device_that_the_module_has_not():
    with pytest.raises(tvm.MLCError) as error:
        parse(
            dedent("""
            @I.ir_module
            class Module:
                I.module_global_infos({"vdevice": [I.vdevice("llvm")]})
                @R.function
                def main(x: R.Tensor((2,), "float32", "cuda:0")):
                    return x
            """)
        )
    assert str(error.value).startswith(
        "the module has 0 virtual devices of kind 'cuda': there is no 'cuda:0'"
    )


def test_devices_that_calls_name_are_those_of_the_module():
    where = 'R.Tensor((2,), dtype="float32", vdevice="llvm:0:global.texture")'
    mod = assert_text(f"""
        @I.ir_module
        class Module:
            I.module_global_infos({{"vdevice": [I.vdevice("llvm", 0, "global.texture")]}})
            @R.function
            def main(x: {where}) -> {where}:
                a = R.call_dps_packed("f", (x,), out_sinfo={where})
                b: {where} = R.call_pure_packed("f", a, sinfo_args=({where},))
                return b
    """)
    (device,) = mod.global_infos["vdevice"]
    for binding in mod["main"].body.blocks[0].bindings:
        assert binding.var.struct_info.vdevice == device
        assert binding.value.sinfo_args[0].vdevice == device
    inside = parse(
        dedent("""
        @R.function
        def main(x: R.Tensor((2,), "float32")):
            return R.add(R.to_vdevice(x, "cuda:1"), R.to_vdevice(x, "cuda:1"))
        """)
    )
    assert inside.ret_struct_info.vdevice == tvm.ir.VDevice("cuda", 1)


def test_prints_and_assertions_run_in_their_place(capsys):
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32"), ok: R.Tensor((), "bool")):
        _ = R.print(x, format="x: {}")
        _1 = R.assert_op(ok, x, format="bad {}")
        y = R.add(x, x)
        return y

    assert main.script(header=False) == dedent("""\
        @R.function(pure=False)
        def main(x: R.Tensor((2,), dtype="float32"), ok: R.Tensor((), dtype="bool")) -> R.Tensor((2,), dtype="float32"):
            _: R.Tuple = R.print(x, format=R.str("x: {}"))
            _1: R.Tuple = R.assert_op(ok, x, format=R.str("bad {}"))
            y: R.Tensor((2,), dtype="float32") = R.add(x, x)
            return y""")  # noqa: E501
    assert relax.analysis.well_formed(main)
    assert structural_equal(parse(main.script()), main)
    ex = tvm.compile(main)
    x = np.ones(2, "float32")
    np.testing.assert_array_equal(ex(x, np.array(True)), x * 2)
    assert capsys.readouterr().out == "x: [1. 1.]\n"
    with pytest.raises(tvm.MLCError, match=r"assert_op: bad \[1\. 1\.\]"):
        ex(x, np.array(False))


def test_a_pure_function_may_not_print():
    @R.function(check_well_formed=False)
    def main(x: R.Tensor((2,), "float32")):
        _ = R.print(x)
        return x

    with pytest.raises(tvm.MLCError) as error:
        relax.analysis.assert_well_formed(main)
    assert "_: a call with effects stands in a function declared pure" in str(error.value)


def test_shape_dtype_and_rank_of_a_tensor_in_text():
    @R.function
    def main(x: R.Tensor(("n", 3), "float16"), y: R.Tensor(dtype="float32", ndim=2)):
        a = R.zeros(x.shape, x.dtype)
        b = R.expand_dims(x, x.ndim)
        c = y.shape
        return (a, b, c, x.ndim)

    assert_text(
        """
        @R.function
        def main(x: R.Tensor(("n", 3), dtype="float16"), y: R.Tensor(dtype="float32", ndim=2)) -> R.Tuple(R.Tensor(("n", 3), dtype="float16"), R.Tensor(("n", 3, 1), dtype="float16"), R.Shape(ndim=2), R.Prim(value=2)):
            n = T.int64()
            a: R.Tensor((n, 3), dtype="float16") = R.zeros(R.shape([n, 3]), dtype="float16")
            b: R.Tensor((n, 3, 1), dtype="float16") = R.expand_dims(x, axis=[2])
            c: R.Shape(ndim=2) = R.shape_of(y)
            return (a, b, c, R.prim_value(2))
        """,  # noqa: E501
        ("0.21",),
    )
    assert main.script(header=False).split("\n")[3:] == [
        '    a: R.Tensor((n, 3), dtype="float16") = R.zeros(R.shape([n, 3]), dtype="float16")',
        '    b: R.Tensor((n, 3, 1), dtype="float16") = R.expand_dims(x, axis=[2])',
        "    c: R.Shape(ndim=2) = R.shape_of(y)",
        "    return (a, b, c, R.prim_value(2))",
    ]


def test_nonlocal_and_alloc_without_a_scope():
    count = 0

    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")):
        nonlocal count
        y = R.builtin.alloc_tensor(R.shape([2, 3]), dtype="float32", runtime_device_index=0)
        return y

    assert main.script(header=False).split("\n")[2] == (
        '    y: R.Tensor((2, 3), dtype="float32") = R.builtin.alloc_tensor(R.shape([2, 3]), '
        'R.dtype("float32"), R.prim_value(0), R.str("global"))'
    )
    assert I.vdevice("llvm") == tvm.ir.VDevice("llvm", 0, "global")
