"""Patterns that libraries share: what they match, and attention written out made an operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mlcnb.core.errors import ArgumentError
from mlcnb.ir import assert_structural_equal
from mlcnb.relax.analysis import get_var2val
from mlcnb.relax.backend import patterns
from mlcnb.relax.dpl import rewrite_call
from mlcnb.script import from_source
from mlcnb.testing.evaluate import evaluate

HEAD = "@R.function\ndef main("


def function(params: str, *lines: str) -> Any:
    """A function of tensors "name: dims" that returns what its last line names."""
    given = ", ".join(
        f'{name}: R.Tensor(({dims},), "{kind}")'
        for name, dims, kind in (p.split("|") for p in params.split())
    )
    body = "".join(f"\n        {line}" for line in lines)
    last = lines[-1].split(" = ")[0]
    end = f"\n        R.output({last})\n    return {last}"
    return from_source(f"{HEAD}{given}):\n    with R.dataflow():{body}{end}")


def matches(pattern: Any, func: Any) -> bool:
    """Whether the value of the last binding does."""
    last = func.body.blocks[0].bindings[-1].value
    return bool(pattern.match(last, var2val=get_var2val(func)))


QKV = "q|2,3,2,4|float32 k|2,3,2,4|float32 v|2,3,2,4|float32"


def test_attention_with_and_without_bias_are_told_apart() -> None:
    plain = function(QKV, "a = R.nn.attention(q, k, v)")
    biased = function(f"{QKV} b|2,2,3,3|float32", "a = R.nn.attention_bias(q, k, v, b)")
    assert_structural_equal(
        biased, function(f"{QKV} b|2,2,3,3|float32", "a = R.nn.attention(q, k, v, b)")
    )
    for with_bias in (False, True):
        pattern, names = patterns.make_attention_pattern(with_bias)
        assert ("bias" in names) == with_bias
        assert (matches(pattern, plain), matches(pattern, biased)) == (not with_bias, with_bias)


def test_attention_of_several_lengths() -> None:
    func = function(
        "q|1,7,2,4|float32 k|1,7,2,4|float32 v|1,7,2,4|float32 s|4|int32",
        'm = R.const(5, "int32")',
        "a = R.nn.attention_var_len(q, k, v, s, m, s, m)",
    )
    pattern, names = patterns.make_attention_pattern(var_len=True)
    call = func.body.blocks[0].bindings[-1].value
    found = pattern.extract_matched_expr(call, get_var2val(func))
    assert found[names["seqstart_q"]] is func.params[3]
    assert "seqstart_k" in names and not matches(patterns.make_attention_pattern()[0], func)


def test_stacked_attention() -> None:
    cut = ["s = R.split(x, 3, axis=2)", "q = s[0]", "k = s[1]", "v = s[2]"]
    slices = [
        f"{n} = R.strided_slice(x, [2], [{i * 8}], [{i * 8 + 8}])" for i, n in enumerate("qkv")
    ]
    shaped = [f"{n}r = R.reshape({n}, R.shape([2, 3, 2, 4]))" for n in "qkv"]
    attention = "a = R.nn.attention(qr, kr, vr)"
    for start, lines in (("split", cut), ("strided_slice", slices)):
        func = function("x|2,3,24|float32", *lines, *shaped, attention)
        other = {"split": "strided_slice", "strided_slice": "split"}[start]
        pattern, names = patterns.make_stacked_attention_pattern(start)
        assert matches(pattern, func)
        assert not matches(patterns.make_stacked_attention_pattern(other)[0], func)
        assert not matches(patterns.make_stacked_attention_pattern(start, True)[0], func)
        call = func.body.blocks[0].bindings[-1].value
        found = pattern.extract_matched_expr(call, get_var2val(func))
        assert found[names["stacked_qkv"]] is func.params[0]
        assert [int(d) for d in found[names["key_reshape_list"]].values] == [2, 3, 2, 4]
    turned = [f"{n}r = R.permute_dims({n}, axes=[1, 0, 2, 3])" for n in "qkv"]
    cut = ["s = R.split(x, 3, axis=3)", *cut[1:]]
    back = [attention, "o = R.permute_dims(a, axes=[1, 0, 2, 3])"]
    func = function("x|3,2,2,12|float32", *cut, *turned, *back)
    pattern, names = patterns.make_stacked_attention_pattern("split", layout="SBN3H")
    assert matches(pattern, func) and "v_transpose" in names
    with pytest.raises(ArgumentError, match="no layout 'NB' of stacked attention"):
        patterns.make_stacked_attention_pattern("split", layout="NB")
    with pytest.raises(ArgumentError, match="does not start with 'take'"):
        patterns.make_stacked_attention_pattern("take")


def test_products_with_scales() -> None:
    func = function(
        "x|2,3|float32 w|4,3|float32 a|1|float32 b|1|float32",
        "t = R.permute_dims(w)",
        "p = R.matmul(x, t)",
        "s = R.multiply(a, b)",
        "m = R.multiply(p, s)",
        'c = R.astype(m, "float16")',
    )
    assert matches(patterns.make_matmul_multiply_pattern(transposed_rhs=True)[0], func)
    func = function(
        "x|2,3|int8 w|3,4|int8",
        'p = R.matmul(x, w, out_dtype="int32")',
        'd = R.dequantize(p, R.const(0.5, "float32"), R.const(0, "int32"))',
    )
    assert matches(patterns.make_matmul_dequantize_pattern()[0], func)


def written_out(layout: str, out: str, bias: str = "", cast: bool = False) -> Any:
    """softmax(q . k * scale + bias) . v with heads before positions."""
    lines, wide = [], layout == "BSNH"
    for n in "qkv":
        if wide:
            lines.append(f"{n}p = R.permute_dims({n}, axes=[0, 2, 1, 3])")
            seq = 3 if n == "q" else 5
            lines.append(f"{n}r = R.reshape({n}p, R.shape([4, {seq}, 8]))")
        else:
            lines.append(f"{n}r = {n}")
    lines += ["kt = R.permute_dims(kr, axes=[0, 2, 1])", "s = R.matmul(qr, kt)"]
    lines.append('f = R.astype(R.const(0.25, "float32"), "float16")' if cast else "f = s")
    scale = "f" if cast else 'R.const(0.25, "float32")'
    lines.append(f"m = R.multiply(s, {scale})")
    lines.append("z = R.add(m, b)" if bias else "z = m")
    lines.append('c = R.astype(z, "float32")' if cast else "c = z")
    lines.append("e = R.nn.softmax(c, axis=-1)")
    lines.append('w = R.astype(e, "float16")' if cast else "w = e")
    lines.append("o = R.matmul(w, vr)")
    if out == "BSNH":
        lines += ["y = R.reshape(o, R.shape([2, 2, 3, 8]))"]
        lines += ["r = R.permute_dims(y, axes=[0, 2, 1, 3])"]
    kind = "float16" if cast else "float32"
    dims = ("2,3,2,8", "2,5,2,8") if wide else ("4,3,8", "4,5,8")
    params = f"q|{dims[0]}|{kind} k|{dims[1]}|{kind} v|{dims[1]}|{kind}"
    return function(f"{params} b|{bias}|{kind}" if bias else params, *lines)


@pytest.mark.parametrize("bias", ["", "4,3,5", "4,1,5", "3,5", "1,5", "5"])
@pytest.mark.parametrize("layout", ["BSNH", "BSH"])
@pytest.mark.parametrize("cast", [False, True])
def test_attention_written_out_becomes_the_operator(layout: str, bias: str, cast: bool) -> None:
    func = written_out(layout, layout, bias, cast)
    pattern, rewriter = patterns.make_attention_rewrite_pattern(layout, layout, bool(bias), cast)
    got = rewrite_call(pattern, rewriter, func)
    values = [b.value for b in got.body.blocks[0].bindings]
    assert "relax.nn.attention" in [v.op.name for v in values if hasattr(v, "op")]
    rng = np.random.default_rng(0)
    args = [
        rng.standard_normal([int(d) for d in p.struct_info.dims]).astype(p.struct_info.dtype.numpy)
        for p in func.params
    ]
    tol = 2e-3 if cast else 1e-5
    np.testing.assert_allclose(evaluate(got, *args), evaluate(func, *args), rtol=tol, atol=tol)


def test_what_is_no_attention_stays() -> None:
    for func in (
        function(
            "q|4,3,3|float32 k|4,3,3|float32 v|4,3,3|float32",
            "t = R.permute_dims(k, axes=[0, 1, 2])",
            "s = R.matmul(q, t)",
            'm = R.multiply(s, R.const(0.25, "float32"))',
            "e = R.nn.softmax(m, axis=-1)",
            "o = R.matmul(e, v)",
        ),
        function(
            "q|4,3,3|float32 k|4,3,3|float32 v|4,3,3|float32",
            "t = R.permute_dims(k, axes=[0, 2, 1])",
            "s = R.matmul(q, t)",
            'm = R.multiply(s, R.const(0.25, "float32"))',
            "e = R.nn.softmax(m, axis=1)",
            "o = R.matmul(e, v)",
        ),
    ):
        pattern, rewriter = patterns.make_attention_rewrite_pattern("BSH", "BSH", False, False)
        assert_structural_equal(rewrite_call(pattern, rewriter, func), func)
    with pytest.raises(ArgumentError, match="no layouts 'BSH', 'NHSB'"):
        patterns.make_attention_rewrite_pattern("BSH", "NHSB", False, False)
