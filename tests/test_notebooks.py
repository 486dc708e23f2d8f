"""Every notebook runs top to bottom, quietly, and shows what it promises."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat import v4

import mlcnb as mlc
from mlcnb.cli._saved import put_away
from mlcnb.target import Target
from tests.run_notebook import (
    Run,
    execute,
    text_lines,
    text_of,
    unseen,
    warnings_of,
    without_dead_widgets,
)
from tests.view.allowed import check_html

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def one_run(name: str) -> pytest.MarkDecorator:
    """The mark of tests that look at one run of a notebook: one process makes them all."""
    return pytest.mark.xdist_group(name)


ALL = pytest.mark.parametrize("name", [pytest.param(n, marks=one_run(n)) for n in NOTEBOOKS])


@cache
def run(name: str) -> Run:
    return execute(FOLDER / name)


@ALL
def test_runs_without_a_warning(name):
    assert warnings_of(run(name).notebook) == []


@ALL
def test_cells_show_what_the_text_says(name):
    """When they run here, and in the outputs that are kept."""
    assert unseen(run(name).notebook) == []
    assert unseen(nbformat.read(FOLDER / name, as_version=4)) == []


@ALL
def test_what_the_text_says_is_checked(name):
    """Each notebook says what its cells must show."""
    cells = nbformat.read(FOLDER / name, as_version=4).cells
    assert [cell for cell in cells if cell.metadata.get("claims")]


@ALL
def test_opens_without_a_question(name):
    """A notebook without a kernel's name makes JupyterLab ask for one."""
    assert nbformat.read(FOLDER / name, as_version=4).metadata.kernelspec.name == "python3"


@ALL
def test_reads_well_without_sight(name):
    """One title, in the first cell; no level of heading skipped; a text for each picture."""
    cells = nbformat.read(FOLDER / name, as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    prose = re.sub(r"^```.*?^```", "", prose, flags=re.MULTILINE | re.DOTALL)
    levels = [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)]
    assert cells[0].source.startswith("# ")
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(levels, levels[1:], strict=False))
    assert not re.findall(r"!\[\s*\]", prose)
    assert all("alt=" in image for image in re.findall(r"<img[^>]*>", prose))


@one_run("00_tour.ipynb")
@pytest.mark.skipif("00_tour.ipynb" not in NOTEBOOKS, reason="the tour is not written yet")
def test_the_tour_recognises_the_cat():
    tour = run("00_tour.ipynb")
    lines = list(text_lines(tour.notebook))
    first = next(line for line in lines if line.startswith("top-1:"))
    name, probability = re.fullmatch(r"top-1: (.+) (0\.\d+)", first).groups()
    assert name == "tiger cat"
    assert float(probability) == pytest.approx(0.386, abs=0.002)
    assert any(line.startswith("top-3:") for line in lines)
    assert any(line.startswith("ratio") for line in lines)
    print(f"\nthe tour: {tour.seconds:.0f} s, {tour.peak_bytes / 2**30:.2f} GB")


@one_run("03_matmul_by_hand.ipynb")
def test_the_matmul_by_hand_keeps_its_tile_in_registers():
    """Counted, not timed: whole vectors of multiply-adds, none of them stored or spilled."""
    cells = run("03_matmul_by_hand.ipynb").notebook.cells
    last = next(cell for cell in reversed(cells) if cell.source.endswith("kernels[0].facts"))
    rows = last.outputs[0]["data"]["text/plain"].splitlines()
    head, *strips = (re.split(r"  +", row.strip()) for row in rows)
    column = {name: head.index(name) for name in head}
    found = [strip for strip in strips if len(strip) == len(head)]
    hot = max(found, key=lambda strip: int(strip[column["FMA"]]))
    target = Target("llvm")
    assert int(hot[column["FMA"]]) == (16 if target.vector_registers >= 32 else 8)
    assert hot[column["register"]] == f"{target.vector_bits} bits"
    assert hot[column["stores"]] == hot[column["spills"]] == "0"


@one_run("04_why_is_it_fast.ipynb")
def test_why_is_it_fast_ends_in_registers():
    """Counted, not timed: the rule's last stage keeps its sums in vectors, and nothing spills."""
    cells = run("04_why_is_it_fast.ipynb").notebook.cells
    text = next(
        output["data"]["text/plain"]
        for cell in cells
        if cell.source.endswith("\nsteps")
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    )
    head, *rows = (re.split(r"  +", row.strip()) for row in text.splitlines()[1:])
    head.remove("time")  # the bar has no title: times and bars share a place
    first, last = (
        dict(zip(head[2:], row[-len(head[2:]) :], strict=True)) for row in rows[:: len(rows) - 1]
    )
    scalar = float(first["vector"].removesuffix("%")) < 2  # a move of a constant at most
    assert scalar or int(first["stores"]) > 0
    (hot,) = (
        output["text"]
        for cell in cells
        if cell.source.startswith("print(steps[-1].kernel.hot_loop")
        for output in cell.outputs
    )
    assert last["stores"] == "0" and "sp)" not in hot and "[sp" not in hot
    # of 16 registers 12 are sums: the bias of a tile, hoisted over its rows, waits on the stack
    assert int(last["spills"]) <= (0 if Target("llvm").vector_registers >= 32 else 4)
    assert int(last["FMA"]) >= 8 and float(last["vector"].split()[0]) > 60


@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4", "cortex-a72"])
def test_the_matmul_by_hand_fits_other_cpus(cpu):
    """Its tile follows the target: on each, one multiply-add for each register of the tile."""
    cells = nbformat.read(FOLDER / "03_matmul_by_hand.ipynb", as_version=4).cells
    told = ("benchmark(", "peak", "plot(", "facts", "hot_loop", "try:", 'diff(steps["as', "trace")
    names = {"steps": {"as written": None}, "np": np, "mlc": mlc}
    for cell in cells:
        if cell.cell_type == "code" and not any(word in cell.source for word in told):
            source = re.sub(r"mlc.diff\(.*", "", cell.source).replace("n = 1024", "n = 64")
            source = source.replace('Target("llvm")', f'Target("llvm -mcpu={cpu}")')
            exec(source, names)  # noqa: S102
    code = mlc.compile(names["sch"], target=f"llvm -mcpu={cpu}").kernels[0].facts
    hot = max((f.hot for f in code.values() if f.hot), key=lambda counts: counts.fma)
    assert hot.fma == names["rows"] * names["vectors"]
    assert (hot.stores, hot.spills) == (0, 0)


@ALL
def test_outputs_are_committed(name):
    """Readable before anything runs, and small."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    cells = [c for c in nbformat.reads(text, as_version=4).cells if c.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)
    assert not [o for cell in cells for o in cell.outputs if o.output_type == "error"]
    assert len(text) < 1_500_000
    kept, alive = (nbformat.reads(text, as_version=4) for _ in range(2))
    assert kept == put_away(without_dead_widgets(alive)), (
        f"python tests/run_notebook.py notebooks/{name} --keep"
    )


@ALL
def test_kept_views_are_read_in_light_and_in_dark(name):
    """What a notebook shows before anything runs is what the views of today show."""
    cells = nbformat.read(FOLDER / name, as_version=4).cells
    kept = [o.get("data", {}).get("text/html", "") for c in cells for o in c.get("outputs", ())]
    for html in (html for html in kept if "border-radius:6px" in html):
        check_html(html)


def test_the_index_of_primitives_leads_to_each():
    """Of each section the first example is open, the others are folded."""
    cells = nbformat.read(FOLDER / "02_primitives.ipynb", as_version=4).cells
    prose = [cell for cell in cells if cell.cell_type == "markdown"]
    (index,) = (cell.source for cell in prose if cell.source.startswith("## Index"))
    heads = [(h, cell) for cell in prose for h in re.findall(r"^### (.+)$", cell.source, re.M)]
    links = re.findall(r"\[([^\]]+)\]\(#([^)]+)\)", index)
    assert links == [(name, name.replace(" ", "-")) for name, _ in heads]
    folded = [cell.metadata.get("jp-MarkdownHeadingCollapsed", False) for _, cell in heads]
    assert folded == [not cell.source.startswith("## ") for _, cell in heads]


@one_run("02_primitives.ipynb")
def test_each_primitive_is_shown_checked_and_refused():
    """As the first cell of the notebook promises: run twice, compared, and a call refused."""
    for cell in run("02_primitives.ipynb").notebook.cells:
        if re.fullmatch(r'gallery\("\w+"\)', cell.source):
            for promised in ("before:", "after:", "both programs were run", "refused: "):
                assert f"\n{promised}" in text_of(cell), cell.source


def test_the_primitives_page_knows_the_lanes_of_three_machines():
    cells = nbformat.read(FOLDER / "02_primitives.ipynb", as_version=4).cells
    (told,) = (cell.source for cell in cells if cell.source.startswith("### vectorize"))
    for name, cpu in (("AVX2", "x86-64-v3"), ("AVX-512", "x86-64-v4"), ("NEON", "cortex-a72")):
        assert f"{Target(f'llvm -mcpu={cpu}').lanes('float32')} with {name}" in told


def test_the_gpu_page_counts_barriers_and_cannot_write_its_last_step():
    """Two barriers a step, one where fetching is double buffered; no CUDA C++ of `mma.sync` yet."""
    cells = nbformat.read(FOLDER / "12_gpu.ipynb", as_version=4).cells
    names = {}
    for cell in cells:
        if cell.cell_type == "code" and ("AXES = " in cell.source or "mma_sync_16" in cell.source):
            exec(cell.source, names)  # noqa: S102
        elif cell.source.startswith(("def tiled", "def buffered")):
            exec(cell.source.partition("\n\n\nstep(")[0], names)  # noqa: S102
    for make, count in ((names["tiled"], 2), (names["buffered"], 1)):
        kernel = mlc.compile(make(names["matmul"](128)), target="cuda").kernels[0]
        step = kernel.source.partition("for (int k_0")[2].partition("\n  }\n")[0]
        assert step.count("__syncthreads();") == count
    with pytest.raises(mlc.MLCError, match="C_warp is in warp memory"):
        mlc.compile(names["sch"], target="cuda")


@one_run("14_tuning.ipynb")
def test_tuning_works_on_two_processes_and_keeps_its_last_picture():
    notebook = run("14_tuning.ipynb").notebook
    lines = list(text_lines(notebook))
    dask = find_spec("distributed") is not None
    wanted = "tried on 2 workers of Dask: 6" if dask else "Dask is not installed: runner= takes"
    assert any(line.startswith(wanted) for line in lines)
    live = next(c for c in notebook.cells if "found = mlc.tune(" in c.source)
    assert live.outputs[0].data["text/plain"].startswith("tune product: ")
    assert all("widget-view" not in kind for kind in live.outputs[0].data)


def test_texts_that_a_progress_bar_parted_are_one():
    bar = v4.new_output("display_data", {"text/plain": ""})
    texts = [v4.new_output("stream", name="stdout", text=text) for text in ("a", "\n", "b\n")]
    other = v4.new_output("stream", name="stderr", text="a warning\n")
    cell = v4.new_code_cell("", outputs=[texts[0], bar, *texts[1:], other])
    kept = without_dead_widgets(v4.new_notebook(cells=[cell])).cells[0].outputs
    assert [(o.name, o.text) for o in kept] == [("stdout", "a\nb\n"), ("stderr", "a warning\n")]
