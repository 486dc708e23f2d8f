"""The text of a call of every operator parses back to the same call."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from mlcnb import relax
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.expr import Var, tensor_info
from mlcnb.relax.operator import make_call
from mlcnb.script import parse
from tests.op.harness import Case
from tests.op.test_declarations import CASES

BY_OPERATOR: dict[str, list[Case]] = defaultdict(list)
for case in CASES:
    BY_OPERATOR[case.op.op_name].append(case)


def module_of(case: Case) -> Any:
    """A module whose function makes the case's call."""
    params: list[Var] = []

    def argument(value: Any) -> Any:
        if isinstance(value, tuple | list) and value and isinstance(value[0], np.ndarray):
            return [argument(v) for v in value]
        if not isinstance(value, np.ndarray):
            return value
        params.append(Var(f"x{len(params)}", tensor_info(value.shape, value.dtype.name)))
        return params[-1]

    args = [argument(a) for a in case.args]
    attrs = {name: getattr(case.op, name) for name in case.op.node_fields}
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(make_call(type(case.op), *args, **attrs)))
    return builder.get()


@pytest.mark.parametrize("name", sorted(BY_OPERATOR))
def test_text_round_trip(name):
    for case in BY_OPERATOR[name][::4]:
        module = module_of(case)
        assert structural_equal(parse(module.script()), module), module.script()
