"""LowerCrossThreadReduction: what threads cannot share is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import PassError
from mlcnb.ir import IRModule
from mlcnb.script import from_source
from mlcnb.tir.transform import LowerCrossThreadReduction


def shared_sum(init: str, update: str = "B[vi] + A[vi, vk]") -> Any:
    """A sum that threads share, with an init and an update of one's own."""
    return from_source(
        f"""
@T.prim_func
def main(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(4):
        for k in T.thread_binding(8, "threadIdx.x"):
            with T.block("B"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    {init}
                B[vi] = {update}
"""
    )


@pytest.mark.parametrize(
    ("init", "update", "message"),
    [
        (
            "B[3 - vi] = T.float32(0)",
            "B[vi] + A[vi, vk]",
            "its init writes B[3 - vi] = T.float32(0.0), another element than the update",
        ),
        (
            "B[vi] = T.float32(0)",
            "B[vi] + B[3 - vi] * A[vi, vk]",
            "what it adds reads B, which it updates",
        ),
    ],
)
def test_an_init_of_another_element_is_refused(init, update, message):
    with pytest.raises(PassError) as error:
        LowerCrossThreadReduction()(IRModule({"main": shared_sum(init, update)}))
    assert error.value.message == (
        f"LowerCrossThreadReduction: threads share the reduction of block B, but {message}"
    )


def test_what_the_pass_made_compiles():
    """The null pointer in its attribute leads nowhere, so nothing can be read by it."""
    made = LowerCrossThreadReduction()(
        IRModule({"main": shared_sum("B[vi] = T.float32(0)", "B[vi] + A[vi, vk]")})
    )
    a = np.arange(32, dtype="float32").reshape(4, 8)
    b = np.full(4, 7, "float32")
    mlc.compile(made, target="cuda-sim")(a, b)
    np.testing.assert_array_equal(b, a.sum(1))
