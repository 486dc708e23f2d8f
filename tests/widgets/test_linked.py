"""The page of linked source: what travels with it, what it asks for, and the text that says it."""

import json

import pytest

import mlcnb as mlc
from mlcnb.codegen.llvm.linked import MACHINES, Linked
from mlcnb.core.errors import MLCError
from mlcnb.script import from_source
from mlcnb.tir.schedule import Schedule
from mlcnb.widgets.base import pack
from mlcnb.widgets.linked import BUDGET, LinkedKernels, LinkedSource, of_executable
from tests.codegen.test_linked import GRAPHS, MATMUL, SCALE, V3
from tests.view import samples
from tests.view.allowed import check_html
from tests.view.names import NAMES


@pytest.fixture(scope="module")
def page():
    return mlc.explore(mlc.compile(from_source(SCALE), target=V3))


def text_of(detail, numbers):
    return ["".join(text for _, text in detail["table"][n]) for n in numbers]


def test_the_snapshot_of_a_small_program(page):
    told = page.snapshot()
    assert (told["open"], [k["name"] for k in told["kernels"]]) == ("scale", ["scale"])
    detail = told["detail"]["scale"]
    assert text_of(detail, detail["lowered"]["lines"]) == page.linked("scale").lowered.texts
    assert detail["lowered"]["links"] == [[1], [2], [3], [4], [5]]
    assert text_of(detail, detail["source"]["lines"]) == SCALE.strip().splitlines()
    assert (detail["source"]["first"], detail["trace"]) == (2, None)
    shipped = [(c["machine"], c["level"]) for c in detail["codes"]]
    others = ["x86-64-v3 (AVX2)", "x86-64-v4 (AVX-512)", "aarch64 (NEON)"]
    assert shipped == [("x86-64-v3", n) for n in (3, 0, 1, 2)] + [(m, 3) for m in others]
    asm = detail["codes"][0]["asm"]
    assert asm["kinds"] == " LL" + "LVS" * 8 + "ssJ"
    assert [p and p[0] for p in asm["places"]] == [0, 2, 2, *[5] * 24, 2, 2, 2]
    assert asm["hot"] is None and asm["left"] == 0
    assert detail["remarks"] == [[4, "completely unrolled loop with 8 iterations", 1]]
    assert any(p["name"].startswith("LoopFullUnroll, then ") for p in detail["passes"])


def test_marks_under_expressions_end_where_these_end(page):
    made = page.linked("scale")
    ends = page.snapshot()["detail"]["scale"]["ends"]
    told = {made.lowered.texts[n - 1][a - 1 : b - 1] for n, a, b in ends if n == 5}
    assert told == {
        "B[i * 8:i * 8 + 8] = A[i * 8:i * 8 + 8] * T.Broadcast(T.float32(2.0), 8)",
        "A[i * 8:i * 8 + 8] * T.Broadcast(T.float32(2.0), 8)",
    }


def test_the_text_says_the_same(page):
    text = repr(page)
    assert text.startswith(
        "Linked source of scale: 29 of 29 instructions have a line (100.0 %); x86-64-v3 at O3\n"
    )
    assert "8 other vector, 8 load, 8 store" in text
    assert "completely unrolled loop with 8 iterations" in text
    assert repr(mlc.explore(mlc.compile(from_source(SCALE), target=V3))) == text


@pytest.mark.parametrize("machine", MACHINES)
def test_other_machines_on_demand(page, machine):
    answer = page.answer("code", {"name": "scale", "machine": machine, "level": 2})
    code = answer["code"]
    assert (code["machine"], code["level"]) == (machine, 2)
    assert len(code["asm"]["lines"]) > 20
    assert max(code["asm"]["lines"]) < len(answer["table"])


def test_questions_that_are_refused(page):
    assert page.answer("code", {"name": "scale", "machine": "vax", "level": 3})["error"] == (
        "no machine 'vax'"
    )
    assert page.answer("open", {"name": "x"}) == {
        "error": "no kernel 'x'", "hint": "there are scale",
    }  # fmt: skip


def test_a_schedule_that_the_kernel_does_not_know():
    sch = Schedule(from_source(MATMUL))
    sch.unroll(sch.get_loops(sch.get_block("C"))[2])
    ex = mlc.compile(sch.mod)
    assert mlc.explore(ex).snapshot()["detail"]["main"]["trace"] is None
    detail = mlc.explore(ex, schedule=sch).snapshot()["detail"]["main"]
    steps = text_of(detail, detail["trace"]["lines"])
    at = next(n for n, text in enumerate(steps) if "sch.unroll" in text)
    (line,) = detail["trace"]["links"][at]
    assert "T.unroll(64)" in text_of(detail, detail["lowered"]["lines"])[line - 1]


def test_an_executable_lists_its_kernels():
    ex = mlc.compile(from_source(GRAPHS["convolution"]))
    page = of_executable(ex)
    assert isinstance(page, LinkedKernels) and len(ex.kernels) > 1
    told = page.snapshot()
    assert [k["name"] for k in told["kernels"]] == list(ex.kernels)
    assert "conv2d" in told["open"]
    assert list(told["detail"]) == [told["open"]]
    other = next(n for n in ex.kernels if n != told["open"])
    assert page.answer("open", {"name": other})["name"] == other
    assert repr(page).startswith(f"Linked source of {len(ex.kernels)} kernels; open: {page.first}")
    assert len(pack(told)) < 300_000


def test_how_much_of_a_hot_loop_has_a_line():
    """Prints the figures: `pytest -s`."""
    found = {"matmul": mlc.compile(from_source(MATMUL), schedule="default").kernels[0]}
    for name in ("convolution", "softmax"):
        page = mlc.explore(mlc.compile(from_source(GRAPHS[name])).kernels)
        found[name] = page.kernels[page.first]
    for name, kernel in found.items():
        page = LinkedSource(kernel)
        made = page.linked(kernel.name)
        (have, total), size = made.hot_located, len(pack(page.snapshot()))
        print(f"{name}: {have} of {total} instructions of the hot loop; page {size:,} bytes")
        assert made.is_exact
        assert have >= 0.8 * total
        assert size < 150_000


def test_long_kernels_are_cut_where_it_is_not_hot():
    ex = mlc.compile(from_source(GRAPHS["softmax"]), target="llvm -mcpu=aarch64")
    page = of_executable(ex)
    detail = page.snapshot()["detail"][page.first]
    code = page.linked(page.first).code()
    asm = detail["codes"][0]["asm"]
    assert len(asm["lines"]) + asm["left"] == len(code.assembly.lines)
    hot = text_of(detail, asm["lines"])[asm["hot"][0]]
    assert hot == code.assembly.lines[code.assembly.hot[0]]
    assert len(pack(page.snapshot())) < 300_000 and BUDGET < 225_000


def test_what_has_no_assembly_is_refused():
    ex = mlc.compile(from_source(GRAPHS["integers"]), target="interp")
    with pytest.raises(MLCError, match="explore: no kernel here has assembly of a CPU"):
        mlc.explore(ex.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_names_stay_text(name):
    page = LinkedSource(samples.linked(name))
    assert json.loads(json.dumps(page.snapshot()))["open"] == name
    check_html(page.to_html())
    assert isinstance(page.linked(name), Linked)
