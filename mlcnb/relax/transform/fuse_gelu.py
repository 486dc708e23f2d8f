"""FuseGelu: gelu written out becomes one operator.

lv = R.divide(x, R.const(1.414))
lv1 = R.add(R.erf(lv), R.const(1.0))                        ->      R.nn.gelu(x)
R.multiply(R.multiply(x, lv1), R.const(0.5))

In any order of the factors, and with tanh(0.798 (x + 0.0447 x^3)) in erf's place: nn.gelu_tanh.
"""

from __future__ import annotations

import math
from typing import Any

from mlcnb.op.binary import Add, Divide, Multiply
from mlcnb.op.nn.activation import Gelu, GeluTanh
from mlcnb.op.unary import Erf, Tanh
from mlcnb.relax.operator import OpDecl, called, make_call
from mlcnb.relax.transform.written_out import CallPass, Reader, same_shape


class FuseGelu(CallPass, says="gelus", prunes=True):
    """Put nn.gelu and nn.gelu_tanh where their formulas are written out.

    Of any shape and float dtype; the numbers may be rounded as exporters do. What departs from the
    formula stays, nothing is refused.
    """


class _Reader(Reader, of=FuseGelu):
    @FuseGelu.rewrites(Multiply, Divide)
    def gelu(self, call: Any, _attrs: Any) -> Any:
        """0.5 * x * (1 + …), where it is complete."""
        half, parts = self.factors_of(call)
        if half != 0.5 or len(parts) != 2:
            return None
        for x, bell in (parts, parts[::-1]):
            gelu = self.bell(x, bell) if same_shape(x, self.var) else None
            if gelu is not None:
                return make_call(gelu, x)
        return None

    def bell(self, x: Any, value: Any) -> type[OpDecl] | None:
        """Which gelu `value` belongs to: 1 + erf(x / sqrt 2), or 1 + tanh(…)."""
        one = self.with_scalar(value, Add)
        inside = None if one is None or one[1] != 1.0 else self.call_of(one[0], Erf, Tanh)
        if inside is None:
            return None
        scale, parts = self.factors(inside.args[0])
        if called(inside) is Erf:
            return Gelu if parts == [x] and _close(scale, math.sqrt(0.5)) else None
        fits = len(parts) == 1 and _close(scale, math.sqrt(2 / math.pi))
        return GeluTanh if fits and self.is_cubic(x, parts[0]) else None

    def is_cubic(self, x: Any, value: Any) -> bool:
        """x + 0.044715 x^3"""
        total = self.call_of(value, Add)
        if total is None:
            return False
        for line, cube in (total.args, total.args[::-1]):
            scale, parts = self.factors(cube)
            if line is x and parts == [x, x, x] and _close(scale, 0.044715):
                return True
        return False


def _close(a: float, b: float) -> bool:
    """Equal as far as a float32 can say."""
    return math.isclose(a, b, rel_tol=1e-6)
