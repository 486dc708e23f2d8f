"""Cases of unary, binary, ternary, comparing, logical and bitwise operators."""

from __future__ import annotations

import numpy as np

from mlcnb.ir.dtype import dtype
from mlcnb.op import binary, compare, ternary, unary
from mlcnb.op._elementwise import Elementwise
from mlcnb.op.datatype import Astype, Bitcast, WrapParam
from tests.op.harness import Case, numbers, special

UNARY = [d for d in vars(unary).values() if isinstance(d, type) and issubclass(d, Elementwise)]
BINARY = [
    d
    for module in (binary, compare)
    for d in vars(module).values()
    if isinstance(d, type) and issubclass(d, Elementwise) and d is not Elementwise
]
#: operators that are worse conditioned than one rounding
LOOSE = {"relax.tan": 1e-2, "relax.log_add_exp": 5e-3, "relax.power": 5e-3, "relax.sinh": 2e-3}
FLOAT_KINDS = ("float32", "float16", "float64", "bfloat16")
WHOLE_KINDS = ("int32", "int64", "int8", "uint8", "uint32")


def _accepted(decl):
    return [k for k in (*FLOAT_KINDS, *WHOLE_KINDS, "bool") if decl.accepts.holds(dtype(k))]


def _rtol(decl, kind):
    loose = LOOSE.get(decl.op_name)
    return (
        None if loose is None or kind in ("float64",) else max(loose, 2e-2 * (kind == "bfloat16"))
    )


def _unary_cases():
    for decl in [d for d in UNARY if d is not Elementwise]:
        for kind in _accepted(decl):
            yield Case(decl(), [numbers((2, 3), kind)], _rtol(decl, kind))
            if kind in ("float32", "float16"):
                yield Case(decl(), [special(kind)], _rtol(decl, kind), note="special")
        first = _accepted(decl)[0]
        yield Case(decl(), [numbers((), first)])
        yield Case(decl(), [numbers((2, 0, 3), first)])


SHAPES = [
    ((2, 3), (2, 3)),
    ((2, 1, 3), (4, 1)),
    ((), (3,)),
    ((), ()),
    ((0, 2), (1, 2)),
    ((1,), (1, 1)),
]
DIVISIONS = ("divide", "floor_divide", "mod", "floor_mod")


def _operands(decl, kind, one, two):
    a, b = numbers(one, kind), numbers(two, kind, seed=1)
    if decl.sugar in DIVISIONS:
        b = np.where(b == 0, np.ones_like(b), b)
    if decl.sugar == "power":
        a, b = (np.abs(a), b) if a.dtype.kind not in "iu" else (a, b)
    return [np.asarray(a), np.asarray(b)]


def _binary_cases():
    for decl in BINARY:
        kinds = _accepted(decl)
        for kind in kinds:
            yield Case(decl(), _operands(decl, kind, (2, 3), (2, 3)), _rtol(decl, kind))
        for one, two in SHAPES[1:]:
            yield Case(decl(), _operands(decl, kinds[0], one, two), _rtol(decl, kinds[0]))
        if "float32" in kinds:
            a, b = np.meshgrid(special(), special())
            rtol = 2e-5 if decl.sugar == "power" else None
            yield Case(decl(), [a.astype("float32"), b.astype("float32")], rtol, note="special")


def _edges():
    low = np.array([-(2**31), 2**31 - 1, -1, 7, -7, 7, -7], "int32")
    by = np.array([-1, 2, 3, -2, 2, 2, -2], "int32")
    for decl in (binary.Divide, binary.FloorDivide, binary.Mod, binary.FloorMod):
        yield Case(decl(), [low, by], note="signs")
    base = np.array([0, 1, -1, -1, 2, -2, 3, 3, 2, 5, -3], "int64")
    power = np.array([0, -3, -3, -2, -1, 63, 39, 40, 64, 0, 33], "int64")
    yield Case(binary.Power(), [base, power], note="whole")
    yield Case(binary.Power(), [np.array([3, 2, 255], "uint8"), np.array([4, 9, 2], "uint8")])
    yield Case(binary.Power(), [np.array(3, "int32"), np.arange(4, dtype="int32")])
    for decl in (compare.LeftShift, compare.RightShift):
        for kind in ("int8", "uint8", "int64"):
            x = np.array([-128, -1, 1, 100, 3, 5, -5], "int64").astype(kind)
            y = np.array([1, 7, 8, 200, 0, 64, 63], "int64").astype(kind)
            yield Case(decl(), [x, y], note="far")
        yield Case(decl(), [np.array([-8, 8], "int32"), np.array([-1, -5], "int32")], note="back")
    yield Case(unary.Abs(), [np.array([-128, 127], "int8")], note="edge")
    yield Case(unary.Negative(), [np.array([0, 1, 255], "uint8")], note="edge")


def _others():
    for kind in ("float32", "int64", "bool", "float16"):
        condition = numbers((2, 1), "bool", 3)
        yield Case(ternary.Where(), [condition, numbers((3,), kind), numbers((2, 3), kind, 1)])
    yield Case(ternary.Where(), [np.array(True), numbers((), "int32"), numbers((2,), "int32")])
    for kind in ("float32", "int32"):
        operands = [numbers(s, kind, i) for i, s in enumerate([(2, 3), (3,), (2, 1)])]
        yield Case(ternary.EwiseFma(), operands)
    clip = unary.Clip()
    for kind in ("float32", "float16", "int32", "uint8"):
        yield Case(clip, [numbers((3, 4), kind), -1.5, 2.0])
    yield Case(clip, [special(), -1.0, 1.0])
    yield Case(clip, [special(), 1.0, -1.0], note="crossed")
    yield Case(clip, [numbers((5,), "int8"), float("-inf"), 300], note="wide")
    yield Case(clip, [numbers((), "int64"), -1, 1])


CASTS = ("float32", "float16", "float64", "bfloat16", "int8", "uint8", "int32", "int64", "bool")


def _casts():
    wild = np.array([0, 0.4, -0.6, 2.5, -2.5, 127.9, 300, -300, 3e9, -3e9, 1e30], "float64")
    wild = np.concatenate([wild, np.array([np.inf, -np.inf, np.nan])])
    for source in CASTS:
        with np.errstate(all="ignore"):
            x = Astype(source).numpy(wild)
        for target in CASTS:
            yield Case(Astype(target), [x])
    yield Case(WrapParam("float16"), [numbers((2,))])
    pairs = "float32 int32, int32 float32, float64 int64, int8 uint8, float16 int16, bool uint8"
    for source, target in (pair.split() for pair in pairs.split(", ")):
        yield Case(Bitcast(target), [numbers((2, 3), source)])
    yield Case(Bitcast("bool"), [np.array([0, 1], "uint8")])
    yield Case(Bitcast("int32"), [numbers(())])


CASES = [*_unary_cases(), *_binary_cases(), *_edges(), *_others(), *_casts()]
MODULES = tuple(f"mlcnb.op.{name}" for name in "unary binary compare ternary datatype".split())
