"""The `mlcnb` command: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlcnb
from mlcnb import cli
from mlcnb.cli import _inputs, _model, bench, lab, show
from mlcnb.cli import run as run_command
from mlcnb.core.errors import MLCError


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """y = relu(x @ w), x: float32 [1, 4], y: [1, 3]."""
    weights = np.arange(12, dtype=np.float32).reshape(4, 3) / 10
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["t"], name="mm"),
            helper.make_node("Relu", ["t"], ["y"], name="act"),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture
def x(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    return tmp_path / "x.npy"


def call(capsys, *argv):
    """Exit code, standard output and standard error of a command."""
    code = cli.main([str(arg) for arg in argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert cli.command_names() == [
        "bench", "compile", "doctor", "explain", "gpu", "lab", "legal", "profile", "replay",
        "roofline", "rules", "run", "show", "tune",
    ]  # fmt: skip
    assert all(f"\n    {name} " in out for name in cli.command_names())


def loaded_by(code: str) -> set[str]:
    """The packages, and those of mlcnb, that Python has loaded after some code."""
    tell = "import sys; print(*{'.'.join(x.split('.')[:2]) for x in sys.modules})"
    done = subprocess.run([sys.executable, "-c", f"{code}; {tell}"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import mlcnb",
        "from mlcnb import cli; cli.make_parser(['--help']).format_help()",
        "from mlcnb import cli; [cli.make_parser([x]) for x in cli.command_names()]",
    ],
)
def test_starting_up_loads_nothing_heavy(code):
    """Not the compiler, nor any library: help comes at once."""
    found = loaded_by(code)
    ours = {x for x in found if x.startswith("mlcnb.")}
    assert ours <= {"mlcnb.core", "mlcnb.cli", "mlcnb.machine"}
    heavy = {"onnx", "llvmlite", "islpy", "IPython", "ipywidgets", "matplotlib", "tqdm"}
    assert not found & heavy


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["show"], ["show", "m", "--stage", "x"]])
def test_wrong_arguments_exit_with_2(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2


def test_as_a_process():
    done = subprocess.run(
        [sys.executable, "-m", "mlcnb", "show", "missing.onnx"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "mlcnb show: there is no file missing.onnx\n"


def test_a_reader_that_leaves_is_no_error():
    writer = subprocess.Popen(
        [sys.executable, "-m", "mlcnb", "doctor", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    writer.stdout.close()
    assert (writer.wait(), writer.stderr.read()) == (0, "")
    writer.stderr.close()


def test_ctrl_c_exits_with_130(monkeypatch, capsys):
    def stop(args):
        raise KeyboardInterrupt

    monkeypatch.setattr(show, "run", stop)
    assert call(capsys, "show", "m.onnx") == (130, "", "mlcnb show: stopped\n")


def test_doctor(capsys):
    code, out, _ = call(capsys, "doctor")
    assert code == 0
    assert out.startswith("machine\n  CPU  ")
    code, out, _ = call(capsys, "doctor", "--json")
    assert json.loads(out)["base"]["numpy"]["version"] == np.__version__


# lab


@pytest.fixture
def shipped(tmp_path):
    """A folder of notebooks as it comes with mlcnb."""
    source = tmp_path / "shipped"
    (source / "assets").mkdir(parents=True)
    (source / "00_tour.ipynb").write_text("{}")
    (source / "assets" / "cat.png").write_bytes(b"cat")
    return source


def test_lab_copies_and_keeps_what_the_user_changed(shipped, tmp_path):
    target = tmp_path / "mine"
    first = lab.copy_notebooks(shipped, target)
    assert first.new == ("00_tour.ipynb", "assets/cat.png")
    assert (target / "assets" / "cat.png").read_bytes() == b"cat"

    (target / "00_tour.ipynb").write_text("my notes")
    (shipped / "00_tour.ipynb").write_text("version 2")
    (shipped / "assets" / "cat.png").write_bytes(b"two cats")
    second = lab.copy_notebooks(shipped, target)
    assert str(second) == (
        f"{target}: yours to change; 0 new, 1 updated\n"
        "  kept yours: 00_tour.ipynb (ours is new: rename it to get both)"
    )
    assert (target / "00_tour.ipynb").read_text() == "my notes"
    assert (target / "assets" / "cat.png").read_bytes() == b"two cats"


def test_lab_says_nothing_of_what_only_the_user_changed(shipped, tmp_path):
    target = tmp_path / "mine"
    lab.copy_notebooks(shipped, target)
    (target / "00_tour.ipynb").write_text("my notes")
    second = lab.copy_notebooks(shipped, target)
    assert str(second) == f"{target}: yours to change; 0 new, 0 updated"
    assert (target / "00_tour.ipynb").read_text() == "my notes"
    (shipped / "00_tour.ipynb").write_text("version 2")
    assert lab.copy_notebooks(shipped, target).kept == ("00_tour.ipynb",)


@pytest.mark.parametrize("record", ["not JSON", "[1]"])
def test_lab_overwrites_nothing_when_its_record_is_lost(shipped, tmp_path, record):
    target = tmp_path / "mine"
    lab.copy_notebooks(shipped, target)
    (target / lab.RECORD).write_text(record)
    (shipped / "00_tour.ipynb").write_text("version 2")
    assert lab.copy_notebooks(shipped, target).kept == ("00_tour.ipynb",)


def test_lab_ships_the_tours_assets(tmp_path, capsys):
    code, out, _ = call(capsys, "lab", tmp_path / "mine", "--no-open")
    assert code == 0
    assert (tmp_path / "mine" / "assets" / "efficientnet_lite0.onnx").stat().st_size > 2**24


@pytest.fixture
def started(monkeypatch):
    """The commands that would have been started."""
    commands = []

    def start(command, check, env):
        commands.append(command)
        assert env["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0] == str(lab.JUPYTER)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(lab.subprocess, "run", start)
    return commands


def test_lab_opens_the_tour_with_settings_that_fetch_nothing(tmp_path, monkeypatch, started):
    monkeypatch.setattr(lab, "is_root", lambda: False)
    assert cli.main(["lab", str(tmp_path / "mine"), "--no-browser"]) == 0
    python, dash_m, name, settings, browser, tour = started[0]
    assert (python, dash_m, name, browser) == (
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
    )
    assert settings == f"--LabApp.app_settings_dir={lab.SETTINGS}"
    overrides = json.loads((lab.SETTINGS / "overrides.json").read_text())
    assert overrides["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    assert tour == str(tmp_path / "mine" / "00_tour.ipynb")


def test_saved_as_html_a_page_is_its_static_form_and_other_formats_go_their_way():
    from nbconvert.exporters import HTMLExporter, LatexExporter, SlidesExporter
    from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
    from traitlets.config import Config

    config = Config(json.loads((lab.JUPYTER / "jupyter_config.json").read_text()))
    output = {"text/html": "", "application/vnd.jupyter.widget-view+json": {"model_id": "m"}}
    state = {"application/vnd.jupyter.widget-state+json": {"state": {"m": {}}}}
    for kind in (HTMLExporter, SlidesExporter):
        chosen = WidgetsDataTypeFilter({"widgets": state}, parent=kind(config=config))
        assert chosen(output) == ["text/html"]
    own, ours = LatexExporter(), LatexExporter(config=config)
    orders = (WidgetsDataTypeFilter({}, parent=x).display_data_priority for x in (own, ours))
    assert next(orders) == next(orders)


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_lab_may_run_as_root_in_a_container(tmp_path, monkeypatch, started, user, allowed):
    monkeypatch.setattr(lab.os, "geteuid", lambda: user, raising=False)
    assert cli.main(["lab", str(tmp_path / "mine")]) == 0
    assert ("--allow-root" in started[0]) == allowed


def test_lab_without_jupyterlab_names_the_extra(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: None)
    code, _, err = call(capsys, "lab", tmp_path / "mine")
    assert code == 2
    assert err.startswith("mlcnb lab: JupyterLab is not installed\nhint: ")
    assert err.endswith(' -m pip install "mlcnb[lab]"\n')


# show, compile, run, bench


@pytest.mark.parametrize(
    ("stage", "word"),
    [
        ("summary", "IRModule: main"),
        ("passes", "changed the module"),
        ("kernels", "Executable for llvm"),
        ("relax", "R.matmul"),
        ("optimized", "R.call_tir"),
        ("summary", "IRModule: main; 2 operators"),
        ("passes", "LegalizeOps"),
        ("tir", "    def fused_"),
        ("scheduled", '"tir.is_scheduled": True'),
        ("kernels", "Executable for llvm; main; "),
        ("llvm", "define "),
        ("llvm-opt", "define "),
        ("asm", "ret"),
    ],
)
def test_show(stage, word, model, capsys):
    code, out, err = call(capsys, "show", model, "--stage", stage)
    assert (code, err) == (0, "")
    assert word in out


@pytest.mark.parametrize("stage", show.STAGES)
def test_show_as_json(stage, model, capsys):
    code, out, err = call(capsys, "show", model, "--stage", stage, "--json")
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert made["schema"] == "mlcnb.show/1"
    kinds = {"passes": "passes", "tir": "loops", "scheduled": "loops"}
    kinds |= dict.fromkeys(("kernels", "llvm", "llvm-opt", "asm"), "kernels")
    assert made["kind"] == kinds.get(stage, "module")


def test_the_graph_as_json_knows_the_nodes_of_the_file(model, capsys):
    _, out, _ = call(capsys, "show", model, "--json")
    nodes = json.loads(out)["graph"]["nodes"]
    assert [n["name"] for n in nodes] == ["x", "matmul", "relu", "output"]
    assert [n["from"] for n in nodes[1:3]] == ["onnx:mm", "onnx:act"]


@pytest.mark.parametrize("stage", ["summary", "passes", "tir", "kernels"])
def test_show_as_a_page(stage, model, tmp_path, capsys):
    for ending, word in ((".html", "<!doctype html>"), (".md", "### ")):
        page = tmp_path / f"page{ending}"
        code, out, err = call(capsys, "show", model, "--stage", stage, "--export", page)
        assert (code, out, err) == (0, f"{page}\n", "")
        assert page.read_text("utf-8").startswith(word)


def test_a_page_of_no_kind_is_refused(model, tmp_path, capsys):
    code, _, err = call(capsys, "show", model, "--export", tmp_path / "page.pdf")
    assert code == 2
    assert err.startswith("mlcnb show: export: 'page.pdf' is no kind of page\nhint: end it with ")
    with pytest.raises(SystemExit):
        call(capsys, "show", model, "--json", "--export", "page.html")


def test_every_stage_is_tested():
    (marks,) = (m for m in test_show.pytestmark if m.name == "parametrize")
    assert {stage for stage, _ in marks.args[1]} == set(show.STAGES)


@pytest.mark.parametrize("stage", ["tir", "scheduled"])
def test_the_loops_that_are_shown_can_be_read_back(stage, model, capsys):
    _, out, _ = call(capsys, "show", model, "--stage", stage)
    mod = mlcnb.script.parse(out)
    assert all(isinstance(f, mlcnb.tir.PrimFunc) for f in mod.functions.values())
    name = list(mod)[0].name_hint
    _, one, _ = call(capsys, "show", model, "--stage", stage, "--kernel", name)
    assert [v.name_hint for v in mlcnb.script.parse(one)] == [name]
    _, code, _ = call(capsys, "show", model, "--stage", "asm", "--kernel", name)
    assert code.startswith(f"# {name}\n")


def test_show_in_another_dialect_and_one_kernel(model, capsys):
    _, old, _ = call(capsys, "show", model, "--stage", "tir")
    _, new, _ = call(capsys, "show", model, "--stage", "tir", "--dialect", "0.27")
    assert "T.block(" in old and "T.sblock(" in new
    code, _, err = call(capsys, "show", model, "--stage", "tir", "--kernel", "nothing")
    assert code == 2
    assert err.startswith("mlcnb show: no kernel 'nothing'\nhint: one of ")


def test_a_kernel_of_a_stage_that_has_none(model, capsys):
    assert call(capsys, "show", model, "--kernel", "mean") == (
        2,
        "",
        "mlcnb show: --stage relax is of the whole model\n"
        "hint: one of tir, scheduled, llvm, llvm-opt, asm\n",
    )


def test_show_says_what_is_wrong_with_a_file(tmp_path, capsys):
    (tmp_path / "empty.onnx").write_bytes(b"")
    code, out, err = call(capsys, "show", tmp_path / "empty.onnx")
    assert (code, out) == (2, "")
    assert "empty.onnx" in err


def test_compile_and_run_the_file(model, x, tmp_path, capsys):
    library = tmp_path / "small.tar"
    code, out, _ = call(capsys, "compile", model, "-o", library, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["bytes"] == library.stat().st_size > 0
    assert report["kernels"] >= 1
    code, out, err = call(capsys, "run", library, "--input", x)
    assert (code, err) == (0, "")
    assert out.startswith("float32 [1, 3]  min 1.8  mean 2.2  max 2.6\n")


@pytest.mark.slow
def test_tune_and_compile_with_what_was_found(model, tmp_path, capsys):
    db = tmp_path / "db"
    code, out, _ = call(capsys, "tune", model, "--db", db, "--trials", 2, "--json")
    assert code == 0
    found = json.loads(out)
    assert found["ratio"] <= 1.0
    assert [set(k) for k in found["kernels"]] == [
        {"kernel", "calls", "default", "best", "ratio", "interval", "tried", "choices"}
    ] * len(found["kernels"])
    code, out, _ = call(capsys, "compile", model, "-o", tmp_path / "x.tar", "--db", db, "--json")
    assert code == 0
    assert any(
        "tir.is_scheduled" in f.attrs
        for f in mlcnb.load_module(tmp_path / "x.tar").mod.functions.values()
    )
    code, _, err = call(capsys, "compile", model, "-o", tmp_path / "x.tar", "--db", tmp_path / "no")
    assert code == 2
    assert "no file" in err


def test_compile_without_winograd(model, tmp_path, capsys, monkeypatch):
    """The option goes on to `mlcnb.compile`."""
    given = []
    monkeypatch.setattr(mlcnb, "compile", lambda mod, **options: given.append(options))
    with pytest.raises(AttributeError):  # what is compiled here is None
        call(capsys, "compile", model, "-o", tmp_path / "x.tar", "--convolution", "direct")
    assert given == [{"target": "llvm", "convolution": "direct"}]


def test_a_compiled_model_is_no_onnx_model(model, tmp_path, capsys):
    call(capsys, "compile", model, "-o", tmp_path / "small.tar")
    for command in ("show", "bench"):
        code, _, err = call(capsys, command, tmp_path / "small.tar")
        assert code == 2
        assert err == (
            f"mlcnb {command}: {tmp_path / 'small.tar'} is a compiled model\n"
            "hint: mlcnb run takes it\n"
        )


def test_compile_looks_for_the_folder_first(model, tmp_path, capsys):
    assert call(capsys, "compile", model, "-o", tmp_path / "no" / "x.tar") == (
        2,
        "",
        f"mlcnb compile: there is no file {tmp_path / 'no'}\n",
    )


def test_run_keeps_results_under_the_name_that_was_given(model, x, tmp_path, capsys):
    assert call(capsys, "run", model, "--input", x, "-o", tmp_path / "kept")[0] == 0
    with np.load(tmp_path / "kept") as results:
        assert results["arr_0"].shape == (1, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["kept", "x.npy"]


def test_scores_with_sides_of_one_are_a_row():
    report = run_command.describe(np.ones((1, 4, 1, 1), np.float32), None, 2)
    assert [c["p"] for c in report["classes"]] == [0.25, 0.25]
    for shape in ((2, 4), (4,), (1, 4, 2), (1, 1)):
        assert "classes" not in run_command.describe(np.ones(shape, np.float32), None, 2)


def test_the_tours_model_from_photo_to_answer(tmp_path, capsys):
    """As the README says it: the model itself, and the file that compile makes of it."""
    assets = lab.find_notebooks() / "assets"
    model, library = assets / "efficientnet_lite0.onnx", tmp_path / "model.tar"
    photo = ("--input", assets / "chelsea.png", "--labels", assets / "imagenet_classes.txt")
    code, out, err = call(capsys, "compile", model, "-o", library)
    assert (code, err) == (0, "")
    assert re.fullmatch(r".*model\.tar: \d+ kernels, [\d,]+ bytes, [\d.]+ s\n", out)
    answers = [call(capsys, "run", m, *photo, "--top", 3) for m in (model, library)]
    assert answers[0] == answers[1]
    code, out, err = answers[0]
    assert (code, err) == (0, "")
    assert out.startswith("float32 [1, 1000]  min ")
    assert out.splitlines()[1:] == ["  0.386  tiger cat", "  0.356  Egyptian cat", "  0.169  tabby"]


def test_run_on_an_array(model, x, tmp_path, capsys):
    kept = tmp_path / "out.npz"
    code, out, err = call(capsys, "run", model, "--input", x, "-o", kept)
    assert (code, err) == (0, "")
    with np.load(kept) as results:
        np.testing.assert_allclose(results["arr_0"], [[1.8, 2.2, 2.6]], rtol=1e-6)
    assert out == (
        "float32 [1, 3]  min 1.8  mean 2.2  max 2.6\n"
        "  0.472  class 2\n"
        "  0.316  class 1\n"
        "  0.212  class 0\n"
    )
    code, out, _ = call(capsys, "run", model, "--input", f"x={x}", "--json", "--top", 1)
    assert json.loads(out)[0]["classes"][0]["class"] == 2


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "no --input for x: float32 [1, 4]\nhint: --input NAME=FILE"),
        (["z=x.npy"], "the model has no input 'z'\nhint: one of x"),
        (["x=cat.png"], "there is no file cat.png"),
        (["nothing.npy"], "there is no file nothing.npy"),
        (
            [f"x={__file__}"],
            f"{__file__}: a picture does not fit x: float32 [1, 4]\nhint: give a .npy file",
        ),
    ],
)
def test_run_with_wrong_inputs(inputs, message, model, capsys):
    flags = [flag for text in inputs for flag in ("--input", text)]
    assert call(capsys, "run", model, *flags) == (2, "", f"mlcnb run: {message}\n")


def test_a_file_without_its_word_is_told_where_it_goes(model, capsys):
    message = "what to do with photo.png? inputs are named\nhint: --input photo.png"
    assert call(capsys, "run", model, "photo.png") == (2, "", f"mlcnb run: {message}\n")


def test_run_refuses_an_array_of_another_shape(model, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    code, out, err = call(capsys, "run", model, "--input", tmp_path / "x.npy")
    assert (code, out) == (2, "")
    assert "(2, 4)" in err


def test_run_refuses_a_pickle_in_an_array_file(model, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.array([print], dtype=object))
    code, out, err = call(capsys, "run", model, "--input", tmp_path / "x.npy")
    assert (code, out) == (2, "")
    assert err == (
        f"mlcnb run: {tmp_path / 'x.npy'} is not a plain array: Object arrays cannot be loaded "
        "when allow_pickle=False\nhint: np.save(file, array) writes one; arrays of objects are "
        "refused\n"
    )


def npy_of(shape: str, data: bytes = b"") -> bytes:
    """A .npy file of float32 that claims a shape."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (117 - len(head)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + data


NO_ARRAYS = {
    "nothing": b"",
    "half a header": npy_of("(3, 2)")[:60],
    "too little": npy_of("(3, 2)", bytes(8)),
    "more than memory": npy_of("(100000000000, 1000000)"),
    "an archive": b"PK\x03\x04" + bytes(40),
    "no text": b"\xff\xfe" * 40,
}


@pytest.mark.parametrize("name", NO_ARRAYS)
def test_run_refuses_what_is_no_array(name, model, tmp_path, capsys):
    (tmp_path / "x.npy").write_bytes(NO_ARRAYS[name])
    code, out, err = call(capsys, "run", model, "--input", tmp_path / "x.npy")
    assert (code, out) == (2, "")
    assert "x.npy is " in err and "hint: " in err and len(err) < 400


def test_run_refuses_an_input_that_is_given_twice(model, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((2, 4), np.float32))
    given = [f"--input=x={tmp_path / 'x.npy'}"] * 2
    _, _, err = call(capsys, "run", model, *given)
    assert err == "mlcnb run: --input gives x twice\nhint: one file for each input\n"


@pytest.mark.parametrize("option", ["--top=0", "--top=-3", "--std=0", "--std=x", "--mean=nan"])
def test_run_refuses_numbers_that_make_no_sense(option, model, capsys):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", str(model), option])
    assert "error: argument" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["rules", "explain", "gpu", "legal", "replay"])
def test_what_is_no_text_is_no_program(command, tmp_path, capsys):
    (tmp_path / "s.py").write_bytes(b"\x89PNG\r\n")
    code, out, err = call(capsys, command, tmp_path / "s.py")
    assert (code, out) == (2, "")
    assert f"mlcnb {command}: {tmp_path / 's.py'} is no text in UTF-8: " in err


def test_labels_that_are_no_text_leave_no_results(model, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    (tmp_path / "labels.txt").write_bytes(b"\xff\xfe\x00")
    files = "--input", tmp_path / "x.npy", "--labels", tmp_path / "labels.txt"
    code, _, err = call(capsys, "run", model, *files, "-o", tmp_path / "y.npz")
    assert (code, "labels.txt is no text in UTF-8" in err) == (2, True)
    assert not (tmp_path / "y.npz").exists()


def test_a_picture_is_resized_cut_and_normalised(tmp_path):
    from PIL import Image

    Image.new("RGB", (100, 50), (255, 0, 127)).save(tmp_path / "p.png")
    wanted = _inputs.Input("x", "float32", (None, 3, 24, 24))
    array = _inputs.read_picture(tmp_path / "p.png", wanted, 0.5, 0.5)
    assert (array.shape, array.dtype) == ((1, 3, 24, 24), np.float32)
    np.testing.assert_allclose(array[0, :, 0, 0], [1.0, -1.0, 127 / 255 * 2 - 1], rtol=1e-6)
    (tmp_path / "x.png").write_text("no picture")
    with pytest.raises(MLCError, match="x.png cannot be read as a picture"):
        _inputs.read_picture(tmp_path / "x.png", wanted, 0.5, 0.5)


def test_bench(model, capsys):
    code, out, _ = call(capsys, "bench", model, "--seconds", 0.05, "--json")
    (timing,) = json.loads(out)
    assert code == 0
    assert timing["model"] == "small" and timing["threads"] == 1
    assert timing["peer"].startswith("onnxruntime ")
    assert timing["ratio"] == pytest.approx(timing["run_ms"] / timing["peer_run_ms"])
    assert timing["max_difference"] < 1e-5
    code, out, _ = call(capsys, "bench", model, "--seconds", 0.05)
    assert out.splitlines()[0].split() == (
        ["ms,", "1", "thread(s)", "import", "compile", "run", "ort", "load", "ort", "run"]
        + ["ratio", "difference"]
    )
    assert out.splitlines()[1].startswith("small ")


def test_bench_without_a_peer(model, monkeypatch, capsys):
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    assert bench.time_model(model, 1, seconds=0.01).peer is None


@pytest.mark.parametrize("batch", ["0", "-1", "x"])
def test_bench_of_no_batch(batch, model, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["bench", str(model), f"--batch={batch}"])
    assert stop.value.code == 2
    assert f"argument --batch: '{batch}' is not a number of 1 or more" in capsys.readouterr().err


def test_shape_argument():
    assert _model.shape("x=1,3") == ("x", (1, 3))
    for text in ("x", "x=", "x=a,b"):
        with pytest.raises(argparse.ArgumentTypeError, match="is not like x=1,3,224,224"):
            _model.shape(text)


# replay, legal, explain, profile, roofline

LOOPS = """
@T.prim_func
def product(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"),
            C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


@pytest.fixture(scope="module")
def loops(tmp_path_factory):
    """A file of one product, C: float32 [16, 16]."""
    path = tmp_path_factory.mktemp("loops") / "product.py"
    path.write_text(LOOPS)
    return path


@pytest.fixture(scope="module")
def steps(loops):
    """A trace of three steps beside it."""
    sch = mlcnb.tir.Schedule(_model.read_script(loops)["product"])
    i, j, k = sch.get_loops(sch.get_block("C"))
    sch.reorder(i, k, j)
    sch.vectorize(j)
    path = loops.parent / "steps.json"
    path.write_text(json.dumps(sch.trace.as_json()))
    return path


def as_process(*argv):
    """A command as a shell starts it: exit code, standard output and standard error."""
    command = [sys.executable, "-m", "mlcnb", *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_replay_by_the_default_rules(loops):
    code, out, err = as_process("replay", loops, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    first, last = found["stages"][0], found["stages"][-1]
    assert (first["step"], first["calls"], last["step"]) == (0, [], found["steps"])
    assert {x["flops"] for x in found["stages"]} == {2 * 16**3}
    assert all(x["seconds"] > 0 and x["difference"] < 1e-5 for x in found["stages"])
    assert all(x["hot"]["instructions"] > 0 for x in found["stages"])


def test_replay_of_steps_that_were_kept(loops, steps, capsys):
    code, out, err = call(capsys, "replay", loops, "--steps", steps)
    assert (code, err) == (0, "")
    assert out.startswith("Replay of product: 3 stages of 2 steps on 1 thread\n")
    code, out, _ = call(capsys, "replay", loops, "--steps", steps, "--at", "0,2", "--json")
    stages = json.loads(out)["stages"]
    assert [x["step"] for x in stages] == [0, 2]
    assert [x.partition("(")[0] for x in stages[1]["calls"]] == ["sch.reorder", "sch.vectorize"]
    code, _, err = call(capsys, "replay", loops, "--steps", steps, "--at", "7")
    assert (code, err) == (
        2,
        "mlcnb replay: replay: no such steps among [7]\nhint: there are 0 to 2\n",
    )


@pytest.mark.parametrize("text", ["", "1,", "a", "-1"])
def test_steps_to_stop_at_are_numbers(loops, text, capsys):
    with pytest.raises(SystemExit):
        cli.main(["replay", str(loops), "--at", text])
    assert f"{text!r} is not like 0,5,12" in capsys.readouterr().err


def test_steps_that_nest_too_deep(loops, tmp_path, capsys):
    (tmp_path / "x.json").write_text("[" * 100_000)
    code, _, err = call(capsys, "replay", loops, "--steps", tmp_path / "x.json")
    assert (code, err.splitlines()[0]) == (
        2,
        f"mlcnb replay: {tmp_path / 'x.json'}: it is nested too deep",
    )


def test_steps_that_are_no_trace(loops, tmp_path, capsys):
    (tmp_path / "x.json").write_text("{")
    code, _, err = call(capsys, "legal", loops, "--steps", tmp_path / "x.json")
    assert code == 2
    assert err.startswith(f"mlcnb legal: {tmp_path / 'x.json'} is no JSON: ")
    assert err.endswith("hint: json.dump(sch.trace.as_json(), file) writes one\n")
    (tmp_path / "x.json").write_text("[1]")
    code, _, err = call(capsys, "legal", loops, "--steps", tmp_path / "x.json")
    assert (code, err.partition("\n")[0]) == (2, "mlcnb legal: the JSON is no trace")


def test_legal_says_what_legal_steps_says(loops, capsys):
    code, out, err = call(capsys, "legal", loops, "k", "--json")
    assert (code, err) == (0, "")
    (found,) = json.loads(out)
    sch = mlcnb.tir.Schedule(_model.read_script(loops)["product"])
    expected = mlcnb.tir.legal_steps(sch, sch.get_loops("C")[2])
    assert found["where"] == expected.where
    assert [x["call"] for x in found["steps"]] == [x.text for x in expected]
    assert found["refused"] == expected.refused
    assert "parallel" in found["refused"]


def test_legal_everywhere_and_nowhere(loops, steps, capsys):
    code, out, _ = call(capsys, "legal", loops, "--json")
    assert [x["where"].split(" in ")[0] for x in json.loads(out)] == [
        "loop i", "loop j", "loop k", "block C",
    ]  # fmt: skip
    code, out, _ = call(capsys, "legal", loops, "--steps", steps)
    heads = [line.split(" in ")[0] for line in out.splitlines() if line.startswith("legal at ")]
    assert as_process("legal", loops, "--steps", steps)[0] == 0
    assert heads[:3] == ["legal at loop i", "legal at loop k", "legal at loop j"]
    assert call(capsys, "legal", loops, "q") == (
        2,
        "",
        "mlcnb legal: there is no block or loop 'q'\nhint: there are i, j, k, C\n",
    )


def test_explain_a_step_that_is_legal(loops):
    code, out, err = as_process("explain", loops, "split", "j", "factors=[None, 8]")
    assert (code, err) == (0, "")
    assert out.startswith("legal, by rule: j_0, j_1 = sch.split(j, factors=[None, 8])\ndiff: ")
    assert "+     for i, j_0, j_1, k in T.grid(16, 2, 8, 16):\n" in out
    code, out, _ = as_process("explain", loops, "reorder", "j,i", "--json")
    assert code == 0
    assert json.loads(out) == {
        "legal": True,
        "proof": "by rule",
        "call": "sch.reorder(j, i)",
        "change": "main: changed, +1 -1 lines",
    }


def test_explain_a_step_that_is_refused(loops, steps, capsys):
    code, out, err = as_process("explain", loops, "parallel", "k")
    assert (code, err) == (1, "")
    assert out.startswith("ScheduleError: parallel: loop k is not parallel: ")
    assert "counter-example for loop k\n" in out
    code, out, _ = call(capsys, "explain", loops, "parallel", "k", "--json", "--steps", steps)
    found = json.loads(out)
    assert (code, found["legal"]) == (1, False)
    assert found["counterexample"][0] == "1. block C at i = 0, k = 0, j = 0 writes C[0, 0]"
    assert 'sch.parallel(sch.get_loops("C")[0])' in found["instead"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["split"], "split at which block or loop?\nhint: mlcnb legal FILE lists them"),
        (["split", "q"], "there is no block or loop 'q'\nhint: there are i, j, k, C"),
        (["splt", "i"], "there is no primitive 'splt'\nhint: split…"),
        (
            ["split", "i", "fctors=3"],
            "split: there is no argument 'fctors'\nhint: loop, factors, …",
        ),
        (["split", "i", "8"], "'8' is not like NAME=VALUE\nhint: \"factors=[None, 8]\""),
    ],
)
def test_explain_what_cannot_be_tried(argv, message, loops, capsys):
    code, out, err = call(capsys, "explain", loops, *argv)
    assert (code, out) == (2, "")
    assert err.startswith(f"mlcnb explain: {message.removesuffix('…')}")


def test_explain_a_page(loops, model, capsys):
    _, out, _ = call(capsys, "explain", loops)
    assert out.startswith("Explorer: schedule of product, 0 steps\n")
    _, out, _ = call(capsys, "explain", model, "--json")
    assert json.loads(out)["text"][0].startswith("model main: 2 operators")


def test_a_loop_function_of_a_model_by_its_name(model, capsys):
    mod = mlcnb.get_pipeline("default")(mlcnb.from_onnx(model))
    (name,) = (v.name_hint for v, f in mod.items() if isinstance(f, mlcnb.tir.PrimFunc))
    code, out, _ = call(capsys, "legal", model, "--kernel", name, "--json")
    assert code == 0
    assert json.loads(out)
    code, _, err = call(capsys, "replay", model, "--kernel", "nothing")
    assert (code, err) == (2, f"mlcnb replay: no kernel 'nothing'\nhint: one of {name}\n")


def test_several_loop_functions_are_told_apart(loops, tmp_path, capsys):
    two = tmp_path / "two.py"
    each = LOOPS.replace("\n", "\n    ")
    two.write_text(f"@I.ir_module\nclass Module:{each}{each.replace('product', 'other')}")
    code, _, err = call(capsys, "legal", two)
    assert (code, err) == (
        2,
        f"mlcnb legal: {two} has 2 loop functions\nhint: --kernel NAME, one of product, other\n",
    )
    assert call(capsys, "legal", two, "i", "--kernel", "other")[0] == 0


def test_profile(model, x, tmp_path):
    code, out, err = as_process("profile", model, "--json", "--repeat", 3, "--threads", 1)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert (found["repeat"], found["threads"]) == (3, 1)
    assert sum(row["share"] for row in found["calls"]) == pytest.approx(1)
    assert [row["flops"] for row in found["calls"]] == [2 * 4 * 3 + 3]
    library = tmp_path / "small.tar"
    assert as_process("compile", model, "-o", library)[0] == 0
    code, out, _ = as_process("profile", library, "--input", x)
    assert (code, out.partition(":")[0]) == (0, "Profile")


def test_profile_wants_inputs_that_are_named(model, x, capsys):
    code, _, err = call(capsys, "profile", model, x)
    assert code == 2
    assert err.endswith(f"inputs are named\nhint: --input {x}\n")


def test_roofline(model, tmp_path):
    code, out, err = as_process("roofline", "--threads", 1)
    assert (code, err) == (0, "")
    assert re.match(r"Roofline of 1 thread: \d+ GFLOP/s in float32, measured\n  level ", out)
    plot = tmp_path / "roof.svg"
    code, out, err = as_process("roofline", model, "--json", "--plot", plot)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert [x["name"] for x in found["levels"]] == ["L1", "L2", "L3", "memory"]
    assert all(x["bandwidth"] > 0 for x in found["levels"])
    assert all(k["seconds"] > 0 for k in found["kernels"])
    assert "<svg" in plot.read_text()


def test_roofline_of_open_sizes(tmp_path, capsys):
    """Kernels are measured: an open size is given a number."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 64])],
    )
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    _, out, _ = call(capsys, "roofline", tmp_path / "m.onnx", "--batch", 8, "--json")
    assert [k["nbytes"] for k in json.loads(out)["kernels"]] == [2 * 8 * 64 * 4]


def test_a_plot_of_no_kind_is_refused(tmp_path, capsys):
    code, _, err = call(capsys, "roofline", "--plot", tmp_path / "roof.doc")
    assert code == 2
    assert err.endswith("hint: end it with .png, .svg or .pdf\n")
