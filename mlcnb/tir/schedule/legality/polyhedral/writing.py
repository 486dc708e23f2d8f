"""Names for isl's text: of loops, axes, and sizes; index expressions and conditions in them.

Names({i: "i_0"}).declare(n)        "n_n", a parameter
index(i * 4 + n, names)             "((4 * i_0) + n_n)"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from mlcnb.arith.presburger import NotAffine, Strict
from mlcnb.ir import expr as e

_RESERVED = frozenset(
    "and or not mod floor ceil floord ceild min max exists implies true false infty NaN rat".split()
)


@dataclass
class Names:
    """What each variable is in isl's text: loops and axes, and the parameters of the function."""

    values: dict[e.Var, str] = field(default_factory=dict)
    parameters: dict[e.Var, str] = field(default_factory=dict)

    def inner(self, values: Mapping[e.Var, str]) -> Names:
        """The names inside a loop or a block; parameters are shared."""
        return Names({**self.values, **values}, self.parameters)

    def value(self, v: e.Var) -> str:
        """The text of a variable."""
        found = self.values.get(v) or self.parameters.get(v)
        if found is None:
            raise NotAffine(f"{v.name} is neither a loop variable nor a size")
        return found

    def declare(self, v: e.Var) -> str:
        """The text of a parameter."""
        if v not in self.parameters:
            self.parameters[v] = fresh(v.name, self.parameters.values(), "n_")
        return self.parameters[v]


def fresh(name: str, taken: object, prefix: str = "") -> str:
    """A name that isl can read and that is not in `taken`."""
    plain = prefix + re.sub(r"\W", "_", name, flags=re.ASCII)  # isl reads no other letters
    plain = f"{plain}_" if plain in _RESERVED or not plain[:1].isalpha() else plain
    plain = plain if plain[:1].isalpha() else f"x{plain}"
    found, count = plain, 1
    while found in taken:  # type: ignore[operator]
        count += 1
        found = f"{plain}_{count}"
    return found


def index(x: e.PrimExpr, names: Names) -> str:
    """An integer expression as isl text.

    Raises:
        NotAffine: it is not affine.
    """
    return Strict(names.value).value(x)


def condition(x: e.PrimExpr, names: Names) -> str:
    """A condition as isl text.

    Raises:
        NotAffine: it is not made of affine comparisons.
    """
    return Strict(names.value).condition(x)
