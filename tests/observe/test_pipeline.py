"""The timeline of a pipeline: how often things happen against counting by hand, and their order."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from mlcnb import cli, view
from mlcnb import dlight as dl
from mlcnb.machine.gpu import gpu
from mlcnb.observe import gpu_report, played
from mlcnb.script import parse
from mlcnb.target import Target
from tests.codegen.gpu_programs import matmul_async, matmul_tiled
from tests.dlight.test_flash_attention import declared
from tests.dlight.test_gpu_rules import halves

BY_HAND = """
@T.prim_func
def main(A: T.Buffer((96,), "float32"), B: T.Buffer((96,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        S = T.alloc_buffer((16,), scope="shared")
        T.ptx_cp_async("float32", S.data, tx, A.data, tx, 4)
        T.ptx_commit_group()
        for i in range(12):
            if i < 11:
                T.ptx_cp_async(
                    "float32", S.data, (i + 1) % 2 * 8 + tx, A.data, i * 8 + 8 + tx, 4, tx < 4)
            T.ptx_commit_group()
            T.ptx_wait_group(1)
            T.tvm_storage_sync("shared")
            B[i * 8 + tx] = S[i % 2 * 8 + tx] * T.float32(2)
            T.tvm_storage_sync("shared")
"""


def attention(mask=None):
    """Attention of 512 queries on tensor cores, in blocks of 128."""
    args = [np.zeros((1, 512, 2, 64), "float16")] * 3
    return dl.gpu.Attention().apply(declared(args, causal_mask=mask)[0], Target("cuda"))


def only(program, device="A100"):
    """The one pipeline of a program."""
    (found,) = gpu_report(program, device).pipelines
    return found


def phases(timeline):
    """How many steps each phase has, in order."""
    found = []
    for step in timeline.steps:
        if not found or found[-1][0] != step.phase:
            found.append([step.phase, 0])
        found[-1][1] += 1
    return found


def check_order(timeline):
    """Nothing is computed before what it waits for has arrived, and threads do one thing a time."""
    arrived = {x.group: x.end for x in timeline.spans if x.kind == "copy"}
    own = [x for x in timeline.spans if x.kind != "copy"]
    assert all(a.end <= b.start + 1e-6 for a, b in zip(own, own[1:], strict=False))
    for wait in (x for x in own if x.kind == "wait"):
        assert wait.end == pytest.approx(max(arrived[n] for n in range(wait.group + 1)))
    ends = [arrived[n] for n in sorted(arrived)]
    assert ends == sorted(ends)


def test_copies_two_steps_ahead():
    """16 x 48 by 48 x 16 in tiles of 8: a block copies 8 x 48 and 48 x 8 floats in six groups."""
    found = only(matmul_async().schedule)
    assert phases(found) == [["prologue", 1], ["steady", 4], ["epilogue", 2]]
    assert [x.nbytes for x in found.spans if x.kind == "copy"] == [2 * 8 * 8 * 4] * 6
    assert found.depth == 2 and not found.is_cut
    products = [x for x in found.spans if x.kind == "product"]
    assert len(products) == 6 and len({x.cycles for x in products}) == 1
    check_order(found)


@pytest.mark.parametrize(("mask", "block"), [(None, (0, 0, 0)), ("TopLeft", (3, 0, 0))])
def test_attention(mask, block):
    """The block that sees most keys is played: 16 tiles of 32 keys and values of 64 halves."""
    found = only(attention(mask))
    assert found.block == block
    assert phases(found) == [["prologue", 1], ["steady", 15], ["epilogue", 1]]
    assert {x.nbytes for x in found.spans if x.kind == "copy"} == {2 * 32 * 64 * 2}
    # products of tensor cores alone: two of 128 x 32 x 64, at 2,048 operations a cycle
    assert all(x.products >= 2 * 2 * 128 * 32 * 64 / 2048 for x in found.steps[1:])
    check_order(found)


def test_product_on_tensor_cores():
    func = halves("float16", 0, 256, 256, 256)[0]
    found = only(dl.gpu.Matmul().apply(func, Target("cuda")))
    assert phases(found) == [["prologue", 1], ["steady", 6], ["epilogue", 2]]
    assert sum(x.nbytes for x in found.steps) == 2 * 64 * 256 * 2
    check_order(found)


def test_what_limits_follows_from_the_machine():
    """The same program: copies that cost nothing, products that cost nothing, copies too late."""
    sch, a100 = attention(), gpu("A100")
    fast = replace(a100, l2=10**9, latency={**a100.latency, "global": 1})
    assert only(sch, fast).limit == "products"
    free = {**a100.latency, "shared": 0, "global": 1}
    quick = replace(a100, flops=10**9, tensor_flops={"float16": 10**9}, l2=108, latency=free)
    assert only(sch, quick).limit == "copies"
    assert "through the block's part of L2" in only(sch, quick).why
    far = replace(a100, latency={**a100.latency, "global": 5000})
    assert only(sch, far).limit == "copies" and "more stages would" in only(sch, far).why


def test_copies_by_hand_and_those_that_read_nothing():
    """Half of the threads write zeros in all but the first group: they read nothing."""
    found = only(parse(BY_HAND))
    copies = [x.nbytes for x in found.spans if x.kind == "copy"]
    assert copies == [8 * 4, *[4 * 4] * 11]
    assert phases(found) == [["prologue", 1], ["steady", 11], ["epilogue", 1]]
    check_order(found)


def test_none_without_asynchronous_copies():
    assert gpu_report(matmul_tiled(64, 64, 64).schedule).pipelines == ()


def test_a_pipeline_that_is_too_long_says_where_it_ends(monkeypatch):
    monkeypatch.setattr(played, "MOST_STEPS", 2)
    found = only(parse(BY_HAND))
    assert found.is_cut and phases(found) == [["prologue", 1], ["steady", 2], ["epilogue", 1]]
    assert "the rest left out" in view.to_text(found)


def test_shown_in_report_text_and_json(tmp_path, capsys):
    report = gpu_report(matmul_async().schedule)
    (found,) = report.pipelines
    text = view.to_text(found)
    assert text.startswith("Pipeline of main on A100 (sm_80): copies limit, predicted")
    assert "1 prologue, 4 steady, 2 epilogue" in text and "Predicted, not measured" in text
    assert "pipeline: copies limit" in view.to_text(report)
    assert "timeline of main, in predicted cycles" in view.to_html(found)
    file = tmp_path / "loops.py"
    file.write_text(matmul_async().schedule.mod["main"].script())
    cli.main(["gpu", str(file), "--json"])
    (given,) = json.loads(capsys.readouterr().out)
    (told,) = given["pipelines"]
    assert told == json.loads(json.dumps({"kernel": 0, **found.to_data()}))
    assert [x["phase"] for x in told["steps"]] == [x.phase for x in found.steps]
