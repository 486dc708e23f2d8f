"""The report on a GPU: counts against counting by hand, and what it says of wrong programs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlcnb as mlc
from mlcnb import cli
from mlcnb import dlight as dl
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.interp import run_prim_func
from mlcnb.core.errors import MLCError
from mlcnb.core.node import FrozenDict, replace, rewrite
from mlcnb.ir import prim_ops as p
from mlcnb.ir.expr import Var
from mlcnb.observe import gpu_report
from mlcnb.script import parse
from mlcnb.target import Target
from mlcnb.testing.gallery.programs import matmul
from mlcnb.tir import stmt as s
from mlcnb.tir.analysis.cost import value_flops
from mlcnb.tir.analysis.kernels import kernels_in, launch_of
from mlcnb.tir.buffer import BufferLoad, decl_buffer
from mlcnb.tir.transform.lower import lower
from tests.codegen.gpu_programs import matmul_naive, matmul_tiled
from tests.dlight.test_flash_attention import declared
from tests.dlight.test_gpu_rules import byte_product, halves
from tests.dlight.test_tf32 import product as of_tf32
from tests.observe.warps.programs import transposed

GUARDED = """
@T.prim_func
def main(A: T.Buffer((3, 70, 4), "float32"), B: T.Buffer((3, 70, 4), "float32")):
    for bx in T.thread_binding(3, thread="blockIdx.x"):
        for tx in T.thread_binding(70, thread="threadIdx.x"):
            for k in range(4):
                if {condition}:
                    B[bx, tx, k] = A[bx, tx, k]
"""
CONDITIONS = {
    "tx % 2 == 0": lambda bx, tx, k: tx % 2 == 0,
    "tx < 32": lambda bx, tx, k: tx < 32,
    "tx + bx * 10 < 40 + k": lambda bx, tx, k: tx + bx * 10 < 40 + k,
    "k == 2": lambda bx, tx, k: k == 2,
    "bx == 1 and tx >= 64": lambda bx, tx, k: bx == 1 and tx >= 64,
    "(tx + k) // 8 == 3": lambda bx, tx, k: (tx + k) // 8 == 3,
}


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(sorted(CONDITIONS)))
def test_divergence(condition):
    """Idle lanes of every warp and iteration, as they are counted one by one."""
    (kernel,) = gpu_report(parse(GUARDED.format(condition=condition))).kernels
    runs = np.array([
        [[[tx < 70 and CONDITIONS[condition](bx, tx, k) for tx in range(w * 32, w * 32 + 32)]
          for k in range(4)] for w in range(3)] for bx in range(3)
    ]).sum(axis=-1)  # fmt: skip
    (found,) = kernel.statements
    assert found.warps == (runs > 0).sum()
    assert found.partial == ((runs > 0) & (runs < 32)).sum()
    assert found.lanes == runs.sum()


def test_work():
    """A product of 64 x 64 x 64: its operations, and each argument once."""
    (kernel,) = gpu_report(matmul_tiled(64, 64, 64).schedule).kernels
    assert kernel.work.flops == 2 * 64**3
    assert kernel.work.distinct == 3 * 64 * 64 * 4
    assert kernel.shared_bytes == 2 * 8 * 8 * 4
    assert (kernel.memory.kernel.grid, kernel.memory.kernel.block) == ((8, 8, 1), (4, 4, 1))


UNEVEN = """
@T.prim_func
def main(A: T.Buffer((64,), "float32"), B: T.Buffer((4, 3, 8), "float32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for by in T.thread_binding(3, thread="blockIdx.y"):
            for tx in T.thread_binding(8, thread="threadIdx.x"):
                B[bx, by, tx] = T.float32(0)
                for k in range({length}):
                    B[bx, by, tx] = B[bx, by, tx] + A[k] * T.float32(2)
                B[bx, by, tx] = T.exp(B[bx, by, tx])
"""
LENGTHS = [
    "bx + 1", "T.min(bx * 5 + 1, 9)", "bx * by", "bx - 2", "(bx + tx) // 2", "bx % 3 * 4 + by", "7",
]  # fmt: skip


def operations_by_interpreter(program, *args):
    """Operations of a launch, counted by each thread as it runs: `program` is lowered."""
    (kernel,) = kernels_in(program.body)
    place, size = p.const(0), 1
    for axis in launch_of(kernel).axes.values():
        place, size = place * axis.dom.extent + axis.var, size * p.as_int(axis.dom.extent)
    counts = decl_buffer((size,), "int64", "counts")

    def counted(n):
        if not isinstance(n, s.BufferStore) or not value_flops(n.value):
            return None
        more = p.const(value_flops(n.value), "int64")
        return s.seq(n, s.BufferStore(counts, BufferLoad(counts, (place,)) + more, (place,)))

    handle = Var("counts_handle", "handle")
    counting = replace(
        program,
        params=(*program.params, handle),
        buffer_map=FrozenDict({**program.buffer_map, handle: counts}),
        body=rewrite(program.body, counted),
    )
    found = np.zeros(size, np.int64)
    run_prim_func(counting, [*args, found], simulate=True)
    return found.sum()


@pytest.mark.parametrize("length", LENGTHS)
def test_loops_as_long_as_their_block_says(length):
    """Operations are summed over blocks and threads, each with its own number of iterations."""
    func = parse(UNEVEN.format(length=length))
    (kernel,) = gpu_report(func).kernels
    args = np.ones(64, np.float32), np.zeros((4, 3, 8), np.float32)
    lowered = lower(func, steps=True)["UnrollLoop"].before
    assert kernel.work.flops == operations_by_interpreter(lowered, *args)
    assert kernel.uncounted == ()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "int8", "tf32"])
def test_tensor_cores_take_the_time_of_their_operands(kind):
    """256 x 256 x 256 by each: bytes in half, tf32 in twice the time of halves."""
    size, rule = (256, 256, 256), dl.gpu.Matmul(tf32=kind == "tf32")
    if kind == "int8":
        func = byte_product(0, *size, False, True)[0]
    else:
        func = (of_tf32(0, *size, False, True) if kind == "tf32" else halves(kind, 0, *size))[0]
    (kernel,) = gpu_report(rule.apply(func, Target("cuda"))).kernels
    assert kernel.work.on_tensor_cores == {kind: 2 * 256**3}
    assert kernel.to_data()["on_tensor_cores"] == {kind: 2 * 256**3}
    (term,) = (x for x in kernel.predicted.terms if x.name == "tensor cores")
    of_a100 = {"float16": 2048, "bfloat16": 2048, "int8": 4096, "tf32": 1024}[kind]
    busiest = -(-kernel.work.blocks // 108) * 2 * 256**3 / kernel.work.blocks
    assert term.seconds == pytest.approx(busiest / of_a100 / 1.41e9)


def test_causal_attention_counts_the_tiles_that_it_multiplies():
    """512 queries in blocks of 128 see 4, 8, 12 and 16 tiles of 32 keys."""
    args = [np.zeros((1, 512, 2, 64), "float16")] * 3
    every, causal = (
        gpu_report(dl.gpu.Attention().apply(declared(args, causal_mask=mask)[0], Target("cuda")))
        for mask in (None, "TopLeft")
    )
    assert every.kernels[0].work.tensor_flops == 2 * 2 * 2 * 512 * 512 * 64
    share = (4 + 8 + 12 + 16) / (4 * 16)
    assert causal.kernels[0].work.tensor_flops == share * every.kernels[0].work.tensor_flops
    # one wave: as long as the last block, which sees all keys
    assert causal.kernels[0].work.cycles >= every.kernels[0].work.cycles
    assert causal.seconds > 0 and causal.kernels[0].uncounted == ()


def test_work_that_only_a_run_knows_is_said():
    text = UNEVEN.format(length='T.Cast("int32", A[bx])')
    report = gpu_report(parse(text))
    assert report.kernels[0].uncounted == ("operations",)
    assert "not counted: operations: only a run knows how many" in str(report)
    assert report.to_data()["kernels"][0]["uncounted"] == ["operations"]


def test_coalescing_is_what_a_column_costs():
    """A warp that walks down a column asks for a sector for each lane."""
    good, bad = (gpu_report(transposed(256, True, x)).kernels[0].work for x in (True, False))
    assert good.sectors == 2 * 256 * 256 * 4 // 32
    assert bad.sectors == 256 * 256 + 256 * 256 * 4 // 32
    assert good.distinct == bad.distinct == 2 * 256 * 256 * 4


@pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")
@pytest.mark.parametrize("device", ["A100", "H100", "RTX 5090"])
def test_registers_are_those_of_the_cubin(device):
    made = matmul_tiled(64, 64, 64)
    (kernel,) = gpu_report(made.schedule, device).kernels
    arch = {"A100": "sm_80", "H100": "sm_90a", "RTX 5090": "sm_120"}[device]
    compiled = mlc.compile(made.schedule, target=f"cuda -arch={arch}").kernels[0]
    (resources,) = compiled.resources.values()
    assert kernel.registers == resources.registers
    assert kernel.resources.spill_stores == 0


RACING = """@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        B[0] = B[0] + A[tx]
"""


def test_a_race_stands_first():
    text = str(gpu_report(parse(RACING)))
    assert text.splitlines()[1:6] == [
        "race on B[0] in global memory: two threads meet, and nothing orders them",
        "     thread           loops  does   line",
        "  A  threadIdx.x = 0         read      4",
        "  B  threadIdx.x = 1         write     4",
        "an order that goes wrong: 1. A reads B[0] (line 4); 2. B reads B[0] (line 4); "
        "3. A writes B[0] (line 4); 4. B writes B[0] (line 4)",
    ]


def test_out_of_bounds():
    report = gpu_report(parse(RACING.replace("B[0] = B[0] + A[tx]", "B[tx] = A[tx + 1]")))
    assert [x.message for x in report.out_of_bounds] == [
        "A[8] is read at tx = 7: dimension 0 has indices 0..8"
    ]
    assert report.races == ()


def test_json():
    report = gpu_report(matmul_naive().schedule)
    data = json.loads(json.dumps(report.to_data(), allow_nan=False))
    assert data["schema"] == "mlcnb.gpu/1"
    assert data["races"] == data["out_of_bounds"] == []
    (kernel,) = data["kernels"]
    assert kernel["flops"] == 2 * 8 * 12 * 10
    assert data["predicted_seconds"] == max(kernel["predicted"]["terms"].values())


def test_methods_are_the_same():
    sch = matmul_naive().schedule
    wanted = gpu_report(sch, "H100").to_data()
    assert sch.mod["main"].gpu_report("H100").to_data() == wanted
    assert mlc.compile(sch, target="cuda-sim").kernels[0].gpu_report("H100").to_data() == wanted


def test_what_is_bound_to_no_thread():
    with pytest.raises(MLCError, match="no loop is bound to threads"):
        gpu_report(matmul())


def test_from_a_shell(tmp_path, capsys):
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(matmul().script())
    bad.write_text(RACING)
    assert cli.main(["gpu", str(good)]) == 0
    assert "predicted" in capsys.readouterr().out
    assert cli.main(["gpu", str(bad), "--json", "--device", "H100"]) == 1
    (data,) = json.loads(capsys.readouterr().out)
    assert data["races"][0]["element"] == "B[0]"
    assert cli.main(["gpu", str(bad), "--export", str(tmp_path / "page.html")]) == 1
    assert "race on B[0]" in (tmp_path / "page.html").read_text()


CHOSEN = """
@T.prim_func
def main(A: T.Buffer((64,)), K: T.Buffer((64,), "int32"), B: T.Buffer((64,))):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            B[bx * 32 + tx] = {value}
"""


@pytest.mark.parametrize(
    ("value", "each"),
    [
        ("T.Select(bx * 32 + tx < 60 and (tx + 3) % 4 != 1, A[tx] * T.float32(2), A[0])", 1),
        ("T.if_then_else(not bx * 32 + tx - 1 < 60, A[tx] * T.float32(2), A[0])", 1),
        ("T.Select(A[tx] + A[0] < A[1], A[2], A[3])", 1),
        ("T.Select(K[tx] + 1 < 3, A[2], A[3])", 1),
    ],
)
def test_where_an_index_is_decides_and_is_no_operation(value, each):
    """In a condition what is computed of values counts, what is computed of indices does not."""
    (kernel,) = gpu_report(parse(CHOSEN.format(value=value))).kernels
    assert kernel.work.flops == 64 * each
