# ruff: noqa: E501
"""The loop nests that schedules and fusion recognise, as whole programs."""

from __future__ import annotations

from typing import Any

from mlcnb.op.linear_algebra import matmul
from mlcnb.op.manipulate import layout
from mlcnb.op.nn import conv, softmax
from tests.op.harness import Case, numbers


def text(op: Any, *shapes: Any, kind: str = "float32") -> str:
    args = [numbers(shape, kind) for shape in shapes]
    args += [None] * (len(op.arguments) - len(args))
    return Case(op, args).prim_func().script()


def test_a_convolution_is_padding_and_a_clean_reduction():
    op = conv.Conv2d(2, 1)
    assert (
        text(op, (1, 3, 8, 8), (4, 3, 3, 3))
        == """\
# from tvm.script import tir as T

@T.prim_func
def main(x0: T.Buffer((1, 3, 8, 8), "float32"), x1: T.Buffer((4, 3, 3, 3), "float32"), conv2d_nchw: T.Buffer((1, 4, 4, 4), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    pad_temp = T.alloc_buffer((1, 3, 10, 10))
    for i0, i1, i2, i3 in T.grid(1, 3, 10, 10):
        with T.block("pad_temp"):
            v_i0, v_i1, v_i2, v_i3 = T.axis.remap("SSSS", [i0, i1, i2, i3])
            T.reads(x0[v_i0, v_i1, v_i2 - 1, v_i3 - 1])
            T.writes(pad_temp[v_i0, v_i1, v_i2, v_i3])
            pad_temp[v_i0, v_i1, v_i2, v_i3] = T.if_then_else(1 <= v_i2 and v_i2 < 9 and 1 <= v_i3 and v_i3 < 9, x0[v_i0, v_i1, v_i2 - 1, v_i3 - 1], T.float32(0.0))
    for nn, ff, yy, xx, rc, ry, rx in T.grid(1, 4, 4, 4, 3, 3, 3):
        with T.block("conv2d_nchw"):
            v_nn, v_ff, v_yy, v_xx, v_rc, v_ry, v_rx = T.axis.remap("SSSSRRR", [nn, ff, yy, xx, rc, ry, rx])
            T.reads(pad_temp[v_nn, v_rc, v_yy * 2 + v_ry, v_xx * 2 + v_rx], x1[v_ff, v_rc, v_ry, v_rx])
            T.writes(conv2d_nchw[v_nn, v_ff, v_yy, v_xx])
            with T.init():
                conv2d_nchw[v_nn, v_ff, v_yy, v_xx] = T.float32(0.0)
            conv2d_nchw[v_nn, v_ff, v_yy, v_xx] = conv2d_nchw[v_nn, v_ff, v_yy, v_xx] + pad_temp[v_nn, v_rc, v_yy * 2 + v_ry, v_xx * 2 + v_rx] * x1[v_ff, v_rc, v_ry, v_rx]"""
    )


def test_a_blocked_convolution_has_its_channels_cut_in_two():
    op = conv.Conv2d(1, 0, 1, 1, "NCHW4c", "OIHW4i8o", "NCHW8c")
    assert (
        text(op, (1, 2, 8, 8, 4), (2, 2, 3, 3, 4, 8))
        == """\
# from tvm.script import tir as T

@T.prim_func
def main(x0: T.Buffer((1, 2, 8, 8, 4), "float32"), x1: T.Buffer((2, 2, 3, 3, 4, 8), "float32"), conv2d_NCHWc: T.Buffer((1, 2, 6, 6, 8), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for n, oc_chunk, oh, ow, oc_block, ic_outer, kh, kw, ic_inner in T.grid(1, 2, 6, 6, 8, 2, 3, 3, 4):
        with T.block("conv2d_NCHWc"):
            v_n, v_oc_chunk, v_oh, v_ow, v_oc_block, v_ic_outer, v_kh, v_kw, v_ic_inner = T.axis.remap("SSSSSRRRR", [n, oc_chunk, oh, ow, oc_block, ic_outer, kh, kw, ic_inner])
            T.reads(x0[v_n, v_ic_outer, v_oh + v_kh, v_ow + v_kw, v_ic_inner], x1[v_oc_chunk, v_ic_outer, v_kh, v_kw, v_ic_inner, v_oc_block])
            T.writes(conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block])
            with T.init():
                conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block] = T.float32(0.0)
            conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block] = conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block] + x0[v_n, v_ic_outer, v_oh + v_kh, v_ow + v_kw, v_ic_inner] * x1[v_oc_chunk, v_ic_outer, v_kh, v_kw, v_ic_inner, v_oc_block]"""
    )


def test_a_depthwise_convolution_does_not_reduce_channels():
    op = conv.Conv2d(groups=8, data_layout="NCHW4c", kernel_layout="OIHW1i4o")
    assert (
        text(op, (1, 2, 8, 8, 4), (2, 1, 3, 3, 1, 4))
        == """\
# from tvm.script import tir as T

@T.prim_func
def main(x0: T.Buffer((1, 2, 8, 8, 4), "float32"), x1: T.Buffer((2, 1, 3, 3, 1, 4), "float32"), depthwise_conv2d_NCHWc: T.Buffer((1, 2, 6, 6, 4), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for n, oc_chunk, oh, ow, oc_block, kh, kw in T.grid(1, 2, 6, 6, 4, 3, 3):
        with T.block("depthwise_conv2d_NCHWc"):
            v_n, v_oc_chunk, v_oh, v_ow, v_oc_block, v_kh, v_kw = T.axis.remap("SSSSSRR", [n, oc_chunk, oh, ow, oc_block, kh, kw])
            T.reads(x0[v_n, v_oc_chunk, v_oh + v_kh, v_ow + v_kw, v_oc_block], x1[v_oc_chunk, 0, v_kh, v_kw, 0, v_oc_block])
            T.writes(depthwise_conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block])
            with T.init():
                depthwise_conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block] = T.float32(0.0)
            depthwise_conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block] = depthwise_conv2d_NCHWc[v_n, v_oc_chunk, v_oh, v_ow, v_oc_block] + x0[v_n, v_oc_chunk, v_oh + v_kh, v_ow + v_kw, v_oc_block] * x1[v_oc_chunk, 0, v_kh, v_kw, 0, v_oc_block]"""
    )


def test_softmax_divides_once_for_each_sum():
    op = softmax.Softmax()
    assert (
        text(op, (2, 8))
        == """\
# from tvm.script import tir as T

@T.prim_func
def main(x0: T.Buffer((2, 8), "float32"), T_softmax_norm: T.Buffer((2, 8), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    T_softmax_maxelem = T.alloc_buffer((2,))
    T_softmax_exp = T.alloc_buffer((2, 8))
    T_softmax_expsum = T.alloc_buffer((2,))
    T_softmax_inverse = T.alloc_buffer((2,))
    for i0, k in T.grid(2, 8):
        with T.block("T_softmax_maxelem"):
            v_i0, v_k = T.axis.remap("SR", [i0, k])
            T.reads(x0[v_i0, v_k])
            T.writes(T_softmax_maxelem[v_i0])
            with T.init():
                T_softmax_maxelem[v_i0] = T.float32("-inf")
            T_softmax_maxelem[v_i0] = T.max(T_softmax_maxelem[v_i0], x0[v_i0, v_k])
    for i0, i1 in T.grid(2, 8):
        with T.block("T_softmax_exp"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(x0[v_i0, v_i1], T_softmax_maxelem[v_i0])
            T.writes(T_softmax_exp[v_i0, v_i1])
            T_softmax_exp[v_i0, v_i1] = T.exp(x0[v_i0, v_i1] - T_softmax_maxelem[v_i0])
    for i0, k in T.grid(2, 8):
        with T.block("T_softmax_expsum"):
            v_i0, v_k = T.axis.remap("SR", [i0, k])
            T.reads(T_softmax_exp[v_i0, v_k])
            T.writes(T_softmax_expsum[v_i0])
            with T.init():
                T_softmax_expsum[v_i0] = T.float32(0.0)
            T_softmax_expsum[v_i0] = T_softmax_expsum[v_i0] + T_softmax_exp[v_i0, v_k]
    for i0 in range(2):
        with T.block("T_softmax_inverse"):
            v_i0 = T.axis.spatial(2, i0)
            T.reads(T_softmax_expsum[v_i0])
            T.writes(T_softmax_inverse[v_i0])
            T_softmax_inverse[v_i0] = T.float32(1.0) / T_softmax_expsum[v_i0]
    for i0, i1 in T.grid(2, 8):
        with T.block("T_softmax_norm"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(T_softmax_exp[v_i0, v_i1], T_softmax_inverse[v_i0])
            T.writes(T_softmax_norm[v_i0, v_i1])
            T_softmax_norm[v_i0, v_i1] = T_softmax_exp[v_i0, v_i1] * T_softmax_inverse[v_i0]"""
    )


def test_a_layout_fills_its_last_block_with_zeros():
    op = layout.LayoutTransform("NCHW", "NCHW16c")
    assert (
        text(op, (1, 30, 2, 2))
        == """\
# from tvm.script import tir as T

@T.prim_func
def main(x0: T.Buffer((1, 30, 2, 2), "float32"), layout_transform: T.Buffer((1, 2, 2, 2, 16), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i0, i1, i2, i3, i4 in T.grid(1, 2, 2, 2, 16):
        with T.block("layout_transform"):
            v_i0, v_i1, v_i2, v_i3, v_i4 = T.axis.remap("SSSSS", [i0, i1, i2, i3, i4])
            T.reads(x0[v_i0, v_i1 * 16 + v_i4, v_i2, v_i3])
            T.writes(layout_transform[v_i0, v_i1, v_i2, v_i3, v_i4])
            layout_transform[v_i0, v_i1, v_i2, v_i3, v_i4] = T.if_then_else(v_i1 * 16 + v_i4 < 30, x0[v_i0, v_i1 * 16 + v_i4, v_i2, v_i3], T.float32(0.0))"""
    )


def test_half_precision_is_summed_in_float32():
    op = matmul.Matmul()
    assert (
        text(op, (2, 3), (3, 4), kind="float16")
        == """\
# from tvm.script import tir as T

@T.prim_func
def main(x0: T.Buffer((2, 3), "float16"), x1: T.Buffer((3, 4), "float16"), matmul_cast: T.Buffer((2, 4), "float16")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    matmul = T.alloc_buffer((2, 4))
    for i0, i1, k in T.grid(2, 4, 3):
        with T.block("matmul"):
            v_i0, v_i1, v_k = T.axis.remap("SSR", [i0, i1, k])
            T.reads(x0[v_i0, v_k], x1[v_k, v_i1])
            T.writes(matmul[v_i0, v_i1])
            with T.init():
                matmul[v_i0, v_i1] = T.float32(0.0)
            matmul[v_i0, v_i1] = matmul[v_i0, v_i1] + T.Cast("float32", x0[v_i0, v_k]) * T.Cast("float32", x1[v_k, v_i1])
    for i0, i1 in T.grid(2, 4):
        with T.block("matmul_cast"):
            v_i0, v_i1 = T.axis.remap("SS", [i0, i1])
            T.reads(matmul[v_i0, v_i1])
            T.writes(matmul_cast[v_i0, v_i1])
            matmul_cast[v_i0, v_i1] = T.Cast("float16", matmul[v_i0, v_i1])"""
    )
