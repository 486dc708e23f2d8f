"""Asynchronous copies that leave their memory: refused where it is proved, else stopped."""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlcnb as mlc
from mlcnb.core.errors import ExecutionError, WellFormedError
from mlcnb.script import from_source

TARGETS = ("cuda -arch=sm_80", "cuda-sim -arch=sm_80")
#: how far a copy begins behind its place, which is read from memory
FAR = "T.Cast('int32', C[0])"


def copied(shape="(128,)", start="tx * 4", to="tx * 4", holds="", rows="0:128"):
    """B = A by way of shared memory, four elements at once."""
    holds = f", {holds}" if holds else ""
    return from_source(f"""
@T.prim_func
def main(A: T.Buffer({shape}, "float32"), C: T.Buffer((1,), "float32"),
         B: T.Buffer((128,), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        with T.block("copied"):
            T.reads(A[{rows}], C[0])
            T.writes(B[0:128])
            S = T.alloc_buffer((128,), "float32", scope="shared")
            T.evaluate(T.ptx_cp_async("float32", S.data, {to}, A.data, {start}, 16{holds}))
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.tvm_storage_sync("shared")
            for x in range(4):
                B[tx * 4 + x] = S[tx * 4 + x]
""")


def run(func, far=0, shape=(128,)):
    """A and what became of it, by simulation."""
    a, out = np.arange(128, dtype="float32").reshape(shape), np.full(128, -1, "float32")
    mlc.compile(func, target=TARGETS[1])(a, np.full(1, far, "float32"), out)
    return a.reshape(-1), out


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"start": "tx * 4 + 4"}, "A[128] is read at tx = 31"),
        ({"start": "tx * 4 - 4"}, "A[-4] is read at tx = 0"),
        ({"start": "tx * 4 + 1"}, "A[128] is read at tx = 31"),
        ({"shape": "(32, 4)", "rows": "0:32, 0:4", "start": "tx * 4 + 4"},
         "A[32, 0] is read at tx = 31"),
        ({"to": "tx * 4 + 4"}, "S[128] is written at tx = 31"),
        ({"start": "tx * 4 + 4", "holds": "tx < 32"}, "A[128] is read at tx = 31"),
    ],
)  # fmt: skip
def test_what_is_proved_to_leave_is_refused(given, told, target):
    with pytest.raises(WellFormedError, match=re.escape(told)):
        mlc.compile(copied(**given), target=target)


@pytest.mark.parametrize("shape", [(128,), (32, 4)])
def test_zeros_come_where_the_condition_does_not_hold(shape):
    """Ragged: what would lie outside is not read, and nothing is checked while it runs."""
    rows = ", ".join(f"0:{n}" for n in shape)
    func = copied(shape, "tx * 4 + 4", holds="tx * 4 + 4 < 128", rows=rows)
    a, out = run(func, shape=shape)
    np.testing.assert_array_equal(out, [*a[4:], 0, 0, 0, 0])
    assert "check_index" not in mlc.compile(func, target=TARGETS[0]).kernels[0].source


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"start": f"tx * 4 + {FAR}"}, "4 elements of A from tx * 4 + "),
        ({"start": f"tx * 4 + {FAR}", "shape": "(32, 4)", "rows": "0:32, 0:4"},
         "4 elements of A from tx * 4 + "),
        ({"to": f"tx * 4 + {FAR}"}, "4 elements of S from tx * 4 + "),
    ],
)  # fmt: skip
def test_what_depends_on_memory_is_checked(given, told):
    """It stops where it would leave; where it does not, it runs."""
    func = copied(**given)
    shape = (32, 4) if "shape" in given else (128,)
    a, out = run(func, shape=shape)
    np.testing.assert_array_equal(out, a)
    for far in (4, -4):
        with pytest.raises(ExecutionError, match=re.escape(told)):
            run(func, far, shape)
    kernel = mlc.compile(func, target=TARGETS[0]).kernels[0]
    assert "check_index(" in kernel.source and kernel.cubin
    with pytest.raises(WellFormedError, match="is not proved"):
        mlc.compile(func, target=TARGETS[0], bounds="prove")


def test_a_place_that_is_not_read_is_not_checked():
    func = copied(start=f"tx * 4 + {FAR}", holds="C[0] < 4.0")
    for far, expected in ((0, np.arange(128)), (4, np.zeros(128))):
        np.testing.assert_array_equal(run(func, far)[1], expected)


BULK = """
@T.prim_func
def main(A: T.Buffer((128,), "float32"), B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        with T.block("copied"):
            T.reads(A[0:128])
            T.writes(B[0:64])
            S = T.alloc_buffer((64,), "float32", scope="shared")
            T.create_barriers(1)
            if tx == 0:
                T.ptx_init_barrier_thread_count(0, 1)
            T.tvm_storage_sync("shared")
            if tx == 0:
                T.ptx_arrive_barrier_expect_tx(0, 256)
                T.ptx_cp_async_bulk("float32", S.data, 0, A.data, 64, 256, 0)
            T.ptx_wait_barrier(0, 0)
            B[tx] = S[tx]
"""


def test_copies_in_bulk():
    a, out = np.arange(128, dtype="float32"), np.zeros(64, "float32")
    mlc.compile(from_source(BULK), target="cuda-sim -arch=sm_90")(a, out)
    np.testing.assert_array_equal(out, a[64:])
    beyond = from_source(BULK.replace("A.data, 64,", "A.data, 68,"))
    for target in ("cuda -arch=sm_90", "cuda-sim -arch=sm_90"):
        with pytest.raises(WellFormedError, match=re.escape("A[128] is read")):
            mlc.compile(beyond, target=target)
