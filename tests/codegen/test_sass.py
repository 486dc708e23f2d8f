"""Machine code of a GPU: what nvdisasm reads out of cubins, line by line."""

from __future__ import annotations

import pytest

import mlcnb as mlc
from mlcnb import dlight as dl
from mlcnb import te
from mlcnb.codegen.cuda import nvrtc, sass
from mlcnb.codegen.cuda.linked import CudaLinked
from mlcnb.codegen.cuda.sass import disassemble
from mlcnb.core.errors import CodegenError, MissingDependencyError
from mlcnb.target import Target
from mlcnb.view.as_text import to_text
from mlcnb.view.cuda import linked
from tests.codegen.test_cuda_linked import line, scaled

pytestmark = pytest.mark.skipif(
    not (nvrtc.is_available() and sass.is_available()), reason="NVRTC or nvdisasm is not installed"
)


def product(kind: str, arch: str, size: int = 256, rule=None):
    """The kernel of a product of matrices with sums in float32, by the default rules or one."""
    a, b = (te.placeholder((size, size), kind, name) for name in "AB")
    k = te.reduce_axis((0, size), "k")

    def at(i, j):
        return te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k)

    func, target = (
        te.create_prim_func([a, b, te.compute((size, size), at, "C")]),
        f"cuda -arch={arch}",
    )
    if rule is None:
        return mlc.compile(func, target, schedule="default").kernels[0]
    with Target(target):
        made = dl.ApplyDefaultSchedule(rule)(mlc.IRModule.from_expr(func))
        return mlc.compile(made, schedule=None).kernels[0]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_a_kernel_that_scales(arch):
    made, sch = scaled()
    kernel = mlc.compile(sch.mod, f"cuda -arch={arch}").kernels[0]
    (code,) = kernel.disassembly.values()
    mix = code.mix()
    assert code.name == "main_kernel" and code.hot is None
    assert mix["LDG"] == mix["STG"] == mix["EXIT"] == 1 and mix["FADD"] + mix["FMUL"] == 1
    assert code.operations[-1] == "EXIT" and "NOP" not in mix and "?" not in mix
    assert code.tensor_instructions == 0
    labels = [x for x in code.lines if x.endswith(":")]
    assert code.instructions + len(labels) == len(code.lines) == len(code.places)
    assert kernel.sass.splitlines() == ["main_kernel:", *code.lines]
    (code,) = disassemble(kernel.binary.located_cubin).values()
    (store,) = [n for n, name in enumerate(code.operations) if name == "STG"]
    assert "B[i_0 * 32 + i_1] =" in kernel.source.splitlines()[code.places[store] - 1]


def test_line_information_changes_no_instruction():
    kernel = product("float32", "sm_90")
    plain, located = kernel.disassembly, disassemble(kernel.binary.located_cubin)
    assert plain.keys() == located.keys()
    for name, code in located.items():
        assert plain[name].lines == code.lines
        assert not any(plain[name].places) and all(
            place for place, op in zip(code.places, code.operations, strict=True) if op
        )


def test_the_hot_loop_of_a_product():
    """Each thread has 8 x 8 sums and takes eight steps in an iteration."""
    code = product("float32", "sm_80", 1024).disassembly["main_kernel"]
    mix = code.mix(*code.hot)
    assert mix["FFMA"] == 8 * 8 * 8 and mix["FFMA"] > 0.8 * mix.total()
    assert mix["BAR"] == 1 and mix["LDS"] > 0 and mix["BRA"] == 1
    assert code.mix()["FFMA"] > mix["FFMA"]  # the last steps are written out behind it
    assert code.operations[code.hot[1]] == "BRA" and code.lines[code.hot[0]].endswith(":")


def test_wide_tiles_load_less_for_each_product():
    """16 x 8 sums: 24 numbers of shared memory a step, four at once, where 8 x 8 have 16."""
    shares = []
    for rule, sums in ((dl.gpu.Matmul, 64), (dl.gpu.Matmul(wide=True), 128)):
        code = product("float32", "sm_90", 1024, rule).disassembly["main_kernel"]
        mix = code.mix(*code.hot)
        assert mix["FFMA"] == 8 * sums
        shares.append((mix["LDS"] / mix["FFMA"], mix["FFMA"] / mix.total()))
    (narrow_loads, narrow), (wide_loads, wide) = shares
    assert wide_loads < 0.8 * narrow_loads and wide > 0.9 > narrow


def test_tensor_cores():
    kernel = product("float16", "sm_80")
    code = kernel.disassembly["main_kernel"]
    found = code.mix()  # ptxas writes a loop out, which the PTX has
    assert code.tensor_instructions == found["HMMA"] >= kernel.ptx.count("mma.sync") > 0
    assert found["LDSM"] >= kernel.ptx.count("ldmatrix") > 0
    told = next(x for x in repr(kernel).splitlines() if x.strip().startswith("main_kernel"))
    assert told.split()[-2:] == [f"{code.instructions:,}", f"{code.tensor_instructions:,}"]
    made = CudaLinked(kernel)
    products = {
        made.lowered.texts[n - 1].split("(")[0].strip()
        for text, links in zip(made.sass.texts, made.sass.links, strict=True)
        for n in links
        if "HMMA" in text
    }
    assert products == {"T.ptx_mma"}


def test_a_warpgroups_products():
    kernel = product("float16", "sm_90a", rule=dl.gpu.WarpgroupMatmul())
    (code,) = kernel.disassembly.values()
    assert code.tensor_instructions == code.mix()["HGMMA"] > 0


def test_lines_of_the_lowered_program():
    made, _ = scaled()
    store = made.lowered.links[line(made.lowered, "B[i_0")]
    of = dict(zip(made.sass.texts, made.sass.links, strict=True))
    assert [links for text, links in of.items() if "STG" in text or "FADD" in text] == [store] * 2
    head = next(x for x in to_text(linked(made)).splitlines() if "lowered program" in x)
    assert head.split()[-2:] == ["PTX", "SASS"]
    assert [pane["name"] for pane in mlc.explore(made).snapshot()["panes"]][-2:] == ["PTX", "SASS"]


def test_what_is_missing_or_cannot_be_read(monkeypatch):
    with pytest.raises(CodegenError, match="nvdisasm refuses"):
        disassemble(b"no machine code")
    monkeypatch.setattr(sass, "files_of", lambda package: iter(()))
    monkeypatch.setenv("PATH", "")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert not sass.is_available()
    made, _ = scaled()
    with pytest.raises(MissingDependencyError, match="nvidia-cuda-nvdisasm"):
        _ = made.kernel.disassembly
    text = to_text(linked(made))
    assert "no SASS: nvdisasm" in text and "no PTX" not in text
    row = next(x for x in repr(made.kernel).splitlines() if x.strip().startswith("main_kernel"))
    assert row.split()[-2:] == ["0", "B"]  # spills and shared memory; no instructions behind them
