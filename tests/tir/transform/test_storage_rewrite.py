"""StorageRewrite: memory is used again, and never while somebody needs it."""

from __future__ import annotations

import pytest

from mlcnb.arith import Analyzer
from mlcnb.core.node import walk
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.script import parse
from mlcnb.script import tir as T
from mlcnb.tir.analysis import allocated_bytes
from mlcnb.tir.functor import substitute
from mlcnb.tir.stmt import Allocate
from mlcnb.tir.transform import StorageRewrite, lower, rewrite_storage
from tests.tir.schedule.random_steps import PROGRAMS
from tests.tir.transform.lowering import check, random_schedule, run_pass, same_bits


@T.prim_func
def chain(A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((16,))
    D = T.alloc_buffer((4,))
    for i in range(8):
        B[i] = A[i] * T.float32(2)
    for i in range(16):
        C[i] = B[i // 2] + T.float32(1)
    for i in range(4):
        D[i] = C[i] + C[15 - i]
    for i in range(8):
        E[i] = D[i // 2]


def test_memory_that_nobody_needs_any_more_is_used_again():
    func = lower(chain)
    after = check(
        StorageRewrite(),
        func,
        """
        C = T.allocate([16], "float32", "global")
        B = T.allocate([8], "float32", "global")
        B_1 = T.decl_buffer((8,), data=B)
        C_1 = T.decl_buffer((16,), data=C)
        D = T.decl_buffer((4,), data=B)
        for i in range(8):
            B_1[i] = A[i] * T.float32(2.0)
        for i in range(16):
            C_1[i] = B_1[i // 2] + T.float32(1.0)
        for i in range(4):
            D[i] = C_1[i] + C_1[15 - i]
        for i in range(8):
            E[i] = D[i // 2]
        """,
    )
    assert allocated_bytes(func) == {"global": 4 * (8 + 16 + 4)}
    assert allocated_bytes(after) == {"global": 4 * (8 + 16)}


def test_memory_that_threads_share_is_left_alone():
    """There is no barrier between the last use of one buffer and the first of another."""
    shared = chain.script().replace("_buffer((8,))", '_buffer((8,), scope="shared")')
    shared = shared.replace("_buffer((4,))", '_buffer((4,), scope="shared")')
    func = lower(parse(shared))
    assert rewrite_storage(func) is func


def test_small_allocations_may_be_left_alone():
    func = lower(chain)
    assert rewrite_storage(func, at_least=33) is func
    assert run_pass(StorageRewrite(at_least=33), func) is func


@T.prim_func
def growing(A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((2,))
    C = T.alloc_buffer((4,))
    D = T.alloc_buffer((8,))
    F = T.alloc_buffer((16,))
    for i in range(2):
        B[i] = A[i]
    for i in range(4):
        C[i] = B[i // 2]
    for i in range(8):
        D[i] = C[i // 2]
    for i in range(16):
        F[i] = D[i // 2]
    for i in range(8):
        E[i] = F[i * 2]


def test_a_home_grows_with_its_largest_user():
    after = check(
        StorageRewrite(),
        lower(growing),
        """
        C = T.allocate([16], "float32", "global")
        B = T.allocate([8], "float32", "global")
        B_1 = T.decl_buffer((2,), data=B)
        C_1 = T.decl_buffer((4,), data=C)
        D = T.decl_buffer((8,), data=B)
        F = T.decl_buffer((16,), data=C)
        for i in range(2):
            B_1[i] = A[i]
        for i in range(4):
            C_1[i] = B_1[i // 2]
        for i in range(8):
            D[i] = C_1[i // 2]
        for i in range(16):
            F[i] = D[i // 2]
        for i in range(8):
            E[i] = F[i * 2]
        """,
    )
    assert allocated_bytes(after) == {"global": 4 * (8 + 16)}


@T.prim_func
def all_at_once(A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for i in range(8):
        B[i] = A[i]
    for i in range(8):
        C[i] = A[7 - i]
    for i in range(8):
        E[i] = B[i] + C[i]


@T.prim_func
def other_dtype(A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,), "int32")
    D = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i]
    for i in range(8):
        C[i] = T.Cast("int32", B[i])
    for i in range(8):
        D[i] = C[7 - i] + 1
    for i in range(8):
        E[i] = T.Cast("float32", D[i])


@T.prim_func
def around_a_loop(A: T.Buffer((8,), "float32"), E: T.Buffer((8,), "float32")):
    B = T.alloc_buffer((8,))
    C = T.alloc_buffer((8,))
    for j in range(8):
        B[j] = A[j]
    for _i in range(4):
        for j in range(8):
            C[j] = A[j] + B[j]
        for j in range(8):
            B[j] = C[7 - j]
    for j in range(8):
        E[j] = B[j]


@pytest.mark.parametrize("func", [all_at_once, other_dtype, around_a_loop])
def test_lives_that_meet_share_nothing(func):
    lowered = lower(func)
    assert rewrite_storage(lowered) is lowered
    after = run_pass(StorageRewrite(), lowered)
    assert allocated_bytes(after) == allocated_bytes(lowered)
    same_bits(lowered, after)


def test_the_pass_says_what_it_saved():
    from mlcnb.ir.instrument import trace
    from mlcnb.ir.module import IRModule

    run = trace(StorageRewrite(), IRModule({"main": lower(chain)}))
    assert run[0].reason == "{'global': 112} -> {'global': 96} bytes"


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_random_schedules_keep_every_bit(name):
    for seed in range(3):
        func = lower(random_schedule(name, seed))
        after = rewrite_storage(func)
        same_bits(func, after)
        before, now = total(func), total(after)
        assert now < before or (after is func and now == before)
        planned = run_pass(StorageRewrite(), func)
        same_bits(func, planned)
        assert total(planned) <= before


def total(func) -> int:
    """Bytes that a function allocates, open sizes taken as 8."""
    found = p.as_expr(sum(allocated_bytes(func).values()))
    sizes = {n: p.const(8, n.dtype) for n in walk(found) if isinstance(n, Var)}
    return p.as_int(Analyzer().simplify(substitute(found, sizes)))


def test_allocations_one_after_the_other_share_memory():
    func = parse(
        """
@T.prim_func
def func(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        one = T.decl_buffer((4,), "float32", scope="local")
        one[0] = A[i]
        B[i] = one[0]
        two = T.decl_buffer((4,), "float32", scope="local")
        two[1] = B[i] + T.float32(1)
        B[i] = two[1]
"""
    )
    after = run_pass(StorageRewrite(), func)
    assert sum(isinstance(n, Allocate) for n in walk(after.body)) == 1
    same_bits(func, after)
