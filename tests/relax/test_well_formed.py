"""well_formed: one broken rule at a time, with the full sentence."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import WellFormedError
from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir.expr import GlobalVar, SizeVar
from mlcnb.ir.module import IRModule
from mlcnb.relax import op
from mlcnb.relax.analysis import assert_well_formed, well_formed
from mlcnb.relax.expr import (
    BindingBlock,
    Call,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    MatchCast,
    Op,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
    VarBinding,
    call_packed,
    call_tir,
    const,
    shape_expr,
    tensor_info,
)
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.script import tir as T

INFO = tensor_info((2,), "float32")
n = SizeVar("n", "int64")
x = Var("x", INFO)
y, z = Var("y", INFO), Var("z", INFO)
lv = DataflowVar("lv", INFO)


def exp(value, info=INFO):
    return replace(op.exp(value), struct_info=info)


def function(*blocks, result=None, params=(x,), ret=INFO, pure=True, **attrs):
    return Function(params, SeqExpr(blocks, result or x), ret, pure, FrozenDict(attrs))


def bind(*pairs):
    return BindingBlock(tuple(VarBinding(v, value) for v, value in pairs))


def flow(*pairs):
    return DataflowBlock(tuple(VarBinding(v, value) for v, value in pairs))


@T.prim_func(private=True)
def copy(A: T.Buffer((2,), "float32"), B: T.Buffer((2,), "float32")):
    for i in range(2):
        with T.block("B"):
            vi = T.axis.spatial(2, i)
            B[vi] = A[vi]


def test_good_programs_pass() -> None:
    good = function(flow((lv, exp(x)), (y, exp(lv))), bind((z, exp(y))), result=z)
    assert well_formed(good)
    assert_well_formed(IRModule.make({"main": good, "copy": copy}))


CASES = {
    "function: y is used but not bound before": function(result=y),
    "function: y is bound twice": function(bind((y, exp(x)), (y, exp(x)))),
    "function: x is bound twice": function(bind((x, exp(x)))),
    "function: z is used but not bound before": function(bind((y, exp(z)), (z, exp(x)))),
    "function: lv is local to its block and used outside of it": function(
        flow((lv, exp(x))), result=lv
    ),
    "function: lv is a DataflowVar outside of a dataflow block": function(bind((lv, exp(x)))),
    "function: a parameter is a DataflowVar": function(params=(lv,)),
    "function: parameter p has no struct info": function(params=(x, Var("p"))),
    "function: q has no struct info": function(bind((Var("q"), exp(x)))),
    "function: the call bound to y has no struct info": function(bind((y, op.exp(x)))),
    "function: a Call stands as an argument, not a leaf": function(bind((y, exp(op.exp(x))))),
    "function: the result of a sequence is a Call, not a leaf": function(result=exp(x)),
    "function: the function has no ret_struct_info": function(ret=None),
    "function: the result is Tensor((2,), float32), declared as Tensor((3,), float32)": function(
        ret=tensor_info((3,), "float32")
    ),
    "function: y is Tensor((3,), float32), declared as Tensor((2,), float32)": function(
        bind((y, exp(x, tensor_info((3,), "float32"))))
    ),
    "function: the struct info of v mentions the symbolic variable n, defined nowhere before": (
        function(bind((Var("v", tensor_info((n,), "float32")), exp(x, None))))
    ),
    "function: a shape mentions the symbolic variable n, defined nowhere before": function(
        bind((y, replace(op.reshape(x, shape_expr([n])), struct_info=INFO)))
    ),
    "function: y: a tuple of 1 has no field 3": function(
        bind((Var("t", TupleStructInfo((INFO,))), Tuple((x,)))),
        bind((y, TupleGetItem(Var("t", TupleStructInfo((INFO,))), 3))),
    ),
    "function: y: an If stands in a dataflow block": function(
        flow((y, If(const(True), SeqExpr((), x), SeqExpr((), x))))
    ),
    "function: a branch of an If is no sequence": function(bind((y, If(const(True), x, x)))),
    "function: y: a call with effects stands in a dataflow block": function(
        flow((y, call_packed("f", x, sinfo_args=INFO)))
    ),
    "function: y: a call with effects stands in a function declared pure": function(
        bind((y, call_packed("f", x, sinfo_args=INFO)))
    ),
    "function: no operator 'relax.nope' is declared": function(
        bind((y, Call(Op("relax.nope"), (x,), struct_info=INFO)))
    ),
    "function: y is bound to an Op": function(bind((y, Op("relax.exp")))),
    "function: call_tir of what is no GlobalVar": function(
        bind((y, replace(call_tir(GlobalVar("f"), (x,), INFO), args=(x, Tuple((x,))))))
    ),
    "function: the arguments of call_tir are no tuple": function(
        bind((y, replace(call_tir(GlobalVar("f"), (x,), INFO), args=(GlobalVar("f"), x))))
    ),
}


def _fixed(message: str, func: Function) -> Function:
    """The case of the tuple binds the same variable that it reads."""
    if "has no field" not in message:
        return func
    t = func.body.blocks[0].bindings[0].var
    item = VarBinding(y, TupleGetItem(t, 3))
    return replace(func, body=SeqExpr((func.body.blocks[0], BindingBlock((item,))), x))


@pytest.mark.parametrize("message", CASES)
def test_broken_programs_are_refused(message: str) -> None:
    func = _fixed(message, CASES[message])
    with pytest.raises(WellFormedError) as caught:
        assert_well_formed(func)
    assert caught.value.message == message
    assert not well_formed(func)


def test_rules_of_modules() -> None:
    def fails(message: str, **functions) -> None:
        with pytest.raises(WellFormedError) as caught:
            assert_well_formed(IRModule.make(functions))
        assert caught.value.message == message

    call = call_tir(GlobalVar("copy"), (x, x), INFO)
    fails(
        "main: copy takes 2 parameters, this call_tir gives 2 inputs and 1 outputs",
        main=function(bind((y, call)), result=y),
        copy=copy,
    )
    fails(
        "main: no function 'copy' in the module",
        main=function(bind((y, call_tir(GlobalVar("copy"), (x,), INFO))), result=y),
    )
    fails(
        "main: call_tir of copy, which is a graph function",
        main=function(bind((y, call_tir(GlobalVar("copy"), (x,), INFO))), result=y),
        copy=function(),
    )
    fails("function 'main' has the global_symbol 'other'", main=function(global_symbol="other"))


def test_match_cast_defines_symbols_and_scopes_end() -> None:
    unknown = Var("u", tensor_info(None, "float32", 1))
    known = Var("k", tensor_info((n,), "float32"))
    cast = BindingBlock((MatchCast(known, unknown, known.struct_info),))
    grown = Var("g", tensor_info((n,), "float32"))
    ret = tensor_info(None, "float32", 1)
    good = function(
        cast, bind((grown, exp(known, known.struct_info))), params=(unknown,), result=grown, ret=ret
    )
    assert_well_formed(good)
    inner = SeqExpr((bind((y, exp(x))),), y)
    choice = VarBinding(z, replace(If(const(True), inner, SeqExpr((), x)), struct_info=INFO))
    bad = Function((x,), SeqExpr((BindingBlock((choice,)),), y), INFO)
    with pytest.raises(WellFormedError, match="y is local to its block and used outside of it"):
        assert_well_formed(bad)


def test_effects_are_allowed_where_they_are_declared() -> None:
    effect = bind((y, call_packed("f", x, sinfo_args=INFO)))
    assert well_formed(function(effect, pure=False))
    assert well_formed(function(effect, **{"relax.force_pure": True}))


def test_the_error_points_into_the_program() -> None:
    func = function(bind((y, exp(z))), result=y)
    with pytest.raises(WellFormedError) as caught:
        assert_well_formed(IRModule.make({"main": func}))
    assert caught.value.where is z and "^" in str(caught.value)


def test_a_call_says_no_size_that_is_defined_nowhere() -> None:
    made = call_packed("f", x, sinfo_args=[tensor_info((n,), "float32")])
    func = Function((x,), SeqExpr((BindingBlock((VarBinding(y, made),)),), x), INFO, False)
    with pytest.raises(WellFormedError, match="the result of y mentions the symbolic variable n"):
        assert_well_formed(func, check_struct_info=False)


def test_a_function_is_impure_or_forced_to_be_pure() -> None:
    forced = FrozenDict({"relax.force_pure": True})
    assert well_formed(Function((x,), SeqExpr((), x), INFO, True, forced))
    with pytest.raises(WellFormedError, match=r"relax\.force_pure of a function that is not pure"):
        assert_well_formed(Function((x,), SeqExpr((), x), INFO, False, forced))
