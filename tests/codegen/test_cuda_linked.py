"""Lines of a kernel for a GPU: from Python to PTX, which belong together."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb.codegen.cuda import nvrtc
from mlcnb.codegen.cuda.linked import CudaLinked
from mlcnb.core.errors import MissingDependencyError
from mlcnb.script import from_source
from mlcnb.tir.schedule import Schedule
from mlcnb.view.as_text import to_text
from mlcnb.view.cuda import is_code, linked
from tests.observe.warps.programs import schedule_of_transpose

SCALE = """
@T.prim_func
def scale(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for i in range(64):
        with T.block("B"):
            v = T.axis.spatial(64, i)
            B[v] = A[v] * T.float32(2)
"""
NVRTC = pytest.mark.skipif(not nvrtc.is_available(), reason="NVRTC is not installed")


def scaled() -> tuple[CudaLinked, Schedule]:
    sch = Schedule(from_source(SCALE))
    block, thread = sch.split(sch.get_loops("B")[0], [2, 32])
    sch.bind(block, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    kernel = mlc.compile(sch.mod, target="cuda").kernels[0]
    return CudaLinked(kernel, sch), sch


def line(form, text: str) -> int:
    """The index of the one line with a text in it."""
    (found,) = [n for n, x in enumerate(form.texts) if text in x]
    return found


def test_the_store_from_python_to_cuda():
    made, _ = scaled()
    assert made.is_exact and "\n".join(made.cuda.texts) + "\n" == made.kernel.source
    of = made.lowered.links[line(made.lowered, "B[i_0")]
    for form, text in (
        (made.source, "B[v] = A[v]"),
        (made.scheduled, "B[v] = A[v]"),
        (made.cuda, "B[i_0 * 32 + i_1] ="),
    ):
        assert form.links[line(form, text)] == of
    axis = made.cuda.links[line(made.cuda, "= threadIdx.x;")]
    assert axis == made.lowered.links[line(made.lowered, '"threadIdx.x"')]
    assert made.cuda.links[0] == frozenset()  # the comment with the sizes


@NVRTC
def test_the_ptx_of_each_line():
    made = CudaLinked(mlc.compile(schedule_of_transpose(64, True), target="cuda").kernels[0])
    of = {text: made.lowered.links[line(made.lowered, text)]
          for text in ("A_shared_1[ax0_0 * 264", "B_1[i_0", "T.tvm_storage_sync")}  # fmt: skip
    rows = list(zip(made.ptx.texts, made.ptx.links, strict=True))
    shared = [links for text, links in rows if "st.shared" in text]
    stores = [links for text, links in rows if "st.global" in text]
    barriers = [links for text, links in rows if "bar.sync" in text]
    assert shared == [of["A_shared_1[ax0_0 * 264"]] * 4
    assert stores == [of["B_1[i_0"]] * 4
    assert barriers == [of["T.tvm_storage_sync"]]
    assert not any(".loc" in text or ".file" in text for text, _ in rows)
    without = [x for x in rows if is_code(x[0]) and not x[1]]
    assert len(without) < 8  # parameters and the return


def test_text_without_nvrtc(monkeypatch):
    def missing(*_):
        raise MissingDependencyError("NVRTC, which compiles CUDA C++, is not installed")

    monkeypatch.setattr("mlcnb.codegen.cuda.linked.compile_text", missing)
    made, _ = scaled()
    text = to_text(linked(made))
    assert text.splitlines()[:2] == [
        "Linked source of main: 7 lines of CUDA C++",
        "no PTX: NVRTC, which compiles CUDA C++, is not installed",
    ]
    assert "B[i_0 * 32 + i_1] = A[i_0 * 32 + i_1] * T.float32(2.0)" in text


def test_the_page_of_an_executable_and_of_its_kernel():
    made, sch = scaled()
    page = mlc.explore(made.kernel, schedule=sch)
    names = [pane["name"] for pane in page.snapshot()["panes"]]
    assert names[:5] == ["Python", "Schedule", "TensorIR", "TensorIR, lowered", "CUDA C++"]
    of_ex = mlc.explore(mlc.compile(sch.mod, target="cuda"))
    assert type(of_ex) is type(page)
    assert page.explain() == repr(page)
