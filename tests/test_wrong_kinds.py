"""Arguments of another kind: what builds programs refuses them with a typed error, or a TypeError.

relax.op.hint_on_device(x, "cuda")     OperatorArgumentError: hint_on_device: an argument is of …
"""

from __future__ import annotations

import inspect
from types import FunctionType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import relax, te, tir
from mlcnb.core.errors import ArgumentError, MLCError, OperatorArgumentError
from mlcnb.op import namespace

X = relax.Var("x", relax.TensorStructInfo((2, 3), "float32"))
A = te.placeholder((4,), name="A")
I, F, P = tir.Var("i", "int32"), tir.Var("f", "float32"), tir.Var("p", "handle")
ODD = [
    "a", "", "float32", None, 1.5, -1, 0, 3, 2**70, float("nan"), True, int, object(),
    [], (), {}, [X, X], (X, "b"), [None], [1, 2], ["a"], np.zeros(2, np.float32),
    X, A, I, F, P, tir.const(1), relax.const(1.0), relax.ShapeExpr([2, 3]),
    lambda *a: next(iter(a), 0),
]  # fmt: skip
odd = st.sampled_from(range(len(ODD))).map(ODD.__getitem__)
OPERATORS = namespace.names()
#: what runs or shows a program is no builder
BUILDERS = [
    (module, name)
    for module in (tir, te)
    for name in sorted(dir(module))
    if isinstance(getattr(module, name), FunctionType) and name not in ("build", "explore")
]


@st.composite
def arguments(draw, fn, usual=()):
    """As many as the function wants, at random; `usual`: what half of them are."""
    found = list(inspect.signature(fn).parameters.values())
    by_place = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in by_place)
    more = 2 if any(p.kind is p.VAR_POSITIONAL for p in found) else 0
    count = draw(st.integers(needed, len(by_place) + more))
    either = odd | st.sampled_from(usual) if usual else odd
    return draw(st.lists(either, min_size=count, max_size=count))


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(OPERATORS))
def test_an_operator_takes_or_refuses_what_it_is_given(data, name):
    fn = namespace.function(name)
    given = data.draw(arguments(fn, [X]))
    try:
        call = fn(*given)
        if isinstance(call, relax.Expr):
            relax.BlockBuilder().normalize(call)
    except (MLCError, TypeError):
        pass


@settings(max_examples=150, deadline=None)
@given(st.data(), st.sampled_from(BUILDERS))
def test_a_builder_of_loops_takes_or_refuses_what_it_is_given(data, named):
    fn = getattr(*named)
    try:
        fn(*data.draw(arguments(fn)))
    except (MLCError, TypeError):
        pass


def normalized(fn, *args):
    return relax.BlockBuilder().normalize(fn(*args))


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (te.thread_axis, ("a", np.zeros(2))),
        (te.thread_axis, ("a", "a", np.zeros(2))),
        (te.scan, (A, A, A, np.zeros((2, 3)))),
        (te.extern, ([(4,), (4,)], (), None, "e", ["float32"])),
        (te.compute, ((4,), A, "c", "", np.zeros((2, 3)))),
        (normalized, (relax.op.matmul, X, X, np.zeros((2, 3)))),
        (normalized, (relax.op.nn.conv2d, X, X, 1, 0, 1, 1, "NCHW", "OIHW", "NCHW", np.zeros(2))),
        (normalized, (relax.op.split, X, 2**70)),
    ],
)
def test_arrays_as_texts_and_numbers_without_end(fn, args):
    with pytest.raises(MLCError):
        fn(*args)


def refusal(fn, *args, **options) -> tuple[type, str]:
    with pytest.raises(MLCError) as caught:
        fn(*args, **options)
    return type(caught.value), caught.value.message


def test_a_refusal_of_an_operator_names_it():
    assert refusal(relax.op.hint_on_device, X, "cuda") == (
        OperatorArgumentError,
        "hint_on_device: 'cuda' is no device",
    )
    assert refusal(normalized, relax.op.arange, "a") == (
        OperatorArgumentError,
        "arange: an argument is of another kind: 'a' is no number",
    )
    assert refusal(relax.op.add, X, "a") == (
        OperatorArgumentError,
        "add: an argument is of another kind: str 'a' is no constant tensor of float32: could not "
        "convert string to float: 'a'",
    )
    assert refusal(normalized, relax.op.sum, X, "a") == (
        OperatorArgumentError,
        "sum: an argument is of another kind: TypeError: '<=' not supported between instances of "
        "'int' and 'str'",
    )


def test_a_constant_is_of_numbers():
    for value in ("a", object(), [None], [[1], [2, 3]], X, A):
        kind, message = refusal(relax.const, value)
        assert kind is ArgumentError
        assert message.startswith(f"{type(value).__name__} ")
        assert " is no constant tensor: " in message


@pytest.mark.parametrize("pointer", [P, tir.decl_buffer((4,), name="B").data], ids=str)
@pytest.mark.parametrize(
    "step",
    [
        lambda x: x * 2, lambda x: x + 1, lambda x: 1 - x, lambda x: -x, lambda x: x // 2,
        lambda x: x % 2, lambda x: x & 1, lambda x: x << 1, lambda x: x + x,
        lambda x: tir.max(x, 1), lambda x: tir.min(x, x),
    ],
)  # fmt: skip
def test_a_pointer_is_no_number(pointer, step):
    assert refusal(step, pointer) == (
        MLCError,
        f"no arithmetic with the pointer {pointer.name}",
    )


@pytest.mark.parametrize("endless", [A, te.placeholder((4, 3))[0]], ids=repr)
def test_what_has_no_end_is_not_iterated(endless):
    with pytest.raises(TypeError, match="is not iterable"):
        list(endless)


def test_constants_of_arrays_still_are_what_they_were():
    assert relax.const([1, 2]).data.dtype == np.int64
    assert mlc.relax.const(np.float16(1)).data.dtype == np.float16
