"""The benchmark runner: its report, its tables, its references. Nothing here asserts a time."""

from __future__ import annotations

import json
from textwrap import dedent

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

import mlcnb as mlc
from mlcnb.machine import Level, Roofline
from mlcnb.observe.peers import onnxruntime_session
from tests.benchmarks import (
    assembly,
    contestants,
    conv,
    exact,
    gemm,
    models,
    operators,
    pages,
    phones,
    report,
)
from tests.benchmarks.__main__ import APART, SUITES, main
from tests.benchmarks.case import flops_of, model_of, random, shapes_of
from tests.benchmarks.measure import Result, Row, measure

ROWS = [
    Row("gemm", "8x8x8", 1, 1024, 768, {
        "mlcnb": Result(1.0, 0.9, 1.1, 10, 1e-7),
        "numpy": Result(2.0, 1.9, 2.1, 10, 2e-7),
        "torch": Result(failed="RuntimeError: no"),
    }),
    Row("gemm", "a|b<c", 1, 0, 768, {
        "mlcnb": Result(0.05, 0.05, 0.06, 10, 3e-7), "numpy": Result(0.0125, 0.01, 0.02, 10, 1e-7),
    }),
    Row("gemm", "8x8x8", 2, 1024, 768, {
        "mlcnb": Result(123.4, 120.0, 130.0, 5, 1e-7), "numpy": Result(61.7, 60.0, 62.0, 5, 2e-7),
    }),
]  # fmt: skip


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(exact, "CACHE", tmp_path / "exact")


def test_a_run_writes_its_report(tmp_path, capsys):
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    path = tmp_path / "out" / "bench.json"
    argv = ["gemm,softmax", "64x64", "128x384", "--quick", "--threads", "1", "--peers", "numpy"]
    assert main([*argv, "--seconds", "0.01", "--no-roofline", "--json", str(path)]) == 0
    data = json.loads(path.read_text())
    assert list(data) == "schema machine settings missing roofline rows summary".split()
    assert data["schema"] == report.SCHEMA and data["missing"] == {}
    assert {"cpu", "cores", "numpy", "llvmlite"} <= set(data["machine"])
    assert [(r["suite"], r["case"], r["threads"]) for r in data["rows"]] == [
        ("gemm", "64x64x64", 1),
        ("softmax", "128x384", 1),
    ]
    for row in data["rows"]:
        assert set(row["results"]) == {"mlcnb", "numpy"}
        for found in row["results"].values():
            assert found["low_ms"] <= found["median_ms"] <= found["high_ms"]
            assert found["runs"] >= 5 and found["failed"] is None and found["error"] < 1e-5
        assert row["best_peer"] == "numpy"
        ours, theirs = (row["results"][n]["median_ms"] for n in ("mlcnb", "numpy"))
        assert row["ratio"] == {"numpy": pytest.approx(ours / theirs)}
    assert (data["rows"][0]["flops"], data["rows"][0]["nbytes"]) == (2 * 64**3, 3 * 4 * 64**2)
    assert {s["peer"] for s in data["summary"]} == {"numpy"}
    assert [r.case for r in report.rows_of(data)] == ["64x64x64", "128x384"]
    assert "gemm, 1 thread: " in capsys.readouterr().out


def test_a_peer_that_is_missing_or_fails_is_named(monkeypatch):
    monkeypatch.setitem(contestants.PEERS, "openvino", ("no_such_module", "none"))
    assert contestants.installed(("numpy", "openvino")) == (
        ["numpy"],
        {"openvino": "not installed"},
    )

    def broken(case, threads):
        raise RuntimeError("no <b>")

    monkeypatch.setitem(contestants._MAKERS, "onnxruntime", broken)
    case = next(operators.softmax(True))
    (row,) = measure([case], [1], ["onnxruntime", "numpy"], 0.01)
    assert row.results["onnxruntime"] == Result(failed="RuntimeError: no <b>")
    assert row.results["mlcnb"].error < 1e-5 and row.best_peer == "numpy"


@pytest.mark.parametrize("version", [9, 17])
def test_a_model_that_says_what_phones_libraries_guess(version):
    """The same results: weights are no inputs, a Softmax names the axis that its opset means."""
    nodes = [helper.make_node("Add", ["x", "w"], ["a"]), helper.make_node("Softmax", ["a"], ["y"])]
    weights = {"w": random(1, 5, 1, 1)}
    model = model_of(nodes, {"x": (1, 5, 1, 1)}, "y", weights, version)
    model.ir_version = 3
    weight = helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, (1, 5, 1, 1))
    model.graph.input.append(weight)
    made = phones.plain(model)
    assert [i.name for i in made.graph.input] == ["x"]
    assert made.graph.node[1].attribute[0].i == (1 if version == 9 else -1)
    assert len(model.graph.input) == 2 and not model.graph.node[1].attribute
    x = {"x": random(1, 5, 1, 1)}
    ours, theirs = (
        onnxruntime_session(m.SerializeToString(), 1).run(None, x)[0] for m in (made, model)
    )
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("peer", ["ncnn", "mnn"])
def test_libraries_for_phones_agree(peer):
    pytest.importorskip(contestants.PEERS[peer][0], reason=f"{peer} is not installed")
    (row,) = measure([next(models.cases(names=("squeezenet",)))], [1], [peer], 0.01)
    assert row.results[peer].error < 1e-4


def test_a_peer_without_a_way_has_no_result():
    (row,) = measure([next(conv.depthwise(True))], [1], ["numpy"], 0.01, accuracy=False)
    assert list(row.results) == ["mlcnb"] and row.best_peer is None and row.ratio("numpy") is None


def test_figures_of_a_row():
    assert ROWS[0].ratio("numpy") == 0.5 and ROWS[0].ratio("torch") is None
    assert ROWS[0].best_peer == "numpy"
    assert ROWS[0].gflops("mlcnb") == pytest.approx(1024 / 1e-3 / 1e9)
    assert ROWS[1].gflops("mlcnb") is None


def test_lines():
    text = "\n".join([report.heading(["mlcnb", "numpy", "torch"]), *map(_line, ROWS[:2])])
    assert text == dedent(
        """\
        milliseconds                                 threads        mlcnb        numpy        torch   ratio    error
        gemm 8x8x8                                         1         1.00         2.00       failed    0.50    1e-07
            torch: RuntimeError: no
        gemm a|b<c                                         1       0.0500       0.0125                 4.00    3e-07"""  # noqa: E501
    )
    assert report.summary_lines(ROWS) == [
        "gemm, 1 thread: 1.41 numpy, 1.41 best of them (worst 4.00: a|b<c)",
        "gemm, 2 threads: 2.00 numpy (worst 2.00: 8x8x8)",
    ]


def _line(row):
    return report.line(row, ["mlcnb", "numpy", "torch"])


def test_markdown():
    assert report.markdown(ROWS, "gemm", ["mlcnb", "numpy"]) == dedent(
        """\
        |  | mlcnb, 1 thr. | numpy | ratio | mlcnb, 2 thr. | numpy | ratio | error |
        | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
        | 8x8x8 | 1.00 | 2.00 | 0.50 | 123 | 61.7 | 2.00 | 1e-07 |
        | a\\|b&lt;c | 0.0500 | 0.0125 | 4.00 |  |  |  | 3e-07 |
        | geometric mean by numpy |  |  | 1.41 |  |  | 2.00 |  |"""
    )


@pytest.mark.parametrize(
    ("cpu", "bits"), [("x86-64-v4", 512), ("x86-64-v3", 256), ("cortex-a72", 128)]
)
def test_a_convolution_is_vectors_everywhere(cpu, bits):
    """Counted: on each CPU the hot loop of a convolution multiplies and adds whole vectors."""
    given = {"pads": [1] * 4}
    case = conv.convolution("conv", "", (1, 32, 14, 14), (32, 32, 3, 3), True, given)
    ex = mlc.compile(mlc.from_onnx(case.model), target=f"llvm -mcpu={cpu}")
    row = assembly.counted("one", cpu, ex)
    assert (row.bits, row.scalar) == (bits, ())
    assert row.vector > 0.9


def test_pages(tmp_path, monkeypatch):
    """Marked sections are written anew, the rest stays; plots are the same files each time."""
    page = tmp_path / "page.md"
    page.write_text(
        "a\n<!-- bench: models -->\nold\n<!-- end -->\nb\n<!-- bench: conv -->\nkept\n<!-- end -->"
    )
    monkeypatch.setattr(pages, "PAGES", (page, tmp_path / "none.md"))
    monkeypatch.setattr(pages, "IMAGES", tmp_path / "images")
    roof = {1: Roofline(100.0, (Level("L1", 1000, 400.0), Level("memory", None, 20.0)), 1)}
    rows = [*ROWS, Row("models", "net", 1, 1024, 768, ROWS[0].results, {"mlcnb ready": 1.5})]
    data = report.as_json(rows, {"cpu": "x"}, {}, {}, roof)
    written = pages.write([data])
    names = ["gemm_1.svg", "gemm_2.svg", "ratios_1.svg", "roofline_1.svg"]
    assert sorted(p.name for p in written) == sorted([*names, "page.md"])
    table = report.markdown(rows, "models", pages.CONTESTANTS)
    assert page.read_text() == (
        f"a\n<!-- bench: models -->\n\n{table}\n\n<!-- end -->\nb\n"
        "<!-- bench: conv -->\nkept\n<!-- end -->"
    )
    before = [p.read_bytes() for p in written]
    assert page not in pages.write([data])
    assert [p.read_bytes() for p in written] == before
    assert pages.headline(rows[3:]) == (
        "On 1 thread, the geometric mean of 1 models is 0.50 of numpy's time; the slowest is net, "
        "at 0.50 times numpy's."
    )
    assert pages.compiling(rows[3:]).splitlines()[-1] == "| net | 1.5 s |  |"
    assert pages.ceilings(data).splitlines()[-1] == "| 1 | 100 | 400 | 20 |"


def test_figures_of_another_cpu_go_between_marks_of_their_own(tmp_path, monkeypatch):
    page, images = tmp_path / "page.md", tmp_path / "images"
    page.write_text(
        "<!-- bench: machine -->\ncpu y, cores 2\n<!-- end -->\n"
        "<!-- bench: gemm -->\nkept\n<!-- end -->\n<!-- bench: gemm x -->\nold\n<!-- end -->"
    )
    monkeypatch.setattr(pages, "PAGES", (page,))
    monkeypatch.setattr(pages, "IMAGES", images)
    data = report.as_json(ROWS, {"cpu": "x"}, {}, {}, {})
    assert pages.write([data]) == [page] and not images.exists()
    table = report.markdown(ROWS, "gemm", pages.CONTESTANTS)
    assert page.read_text() == (
        "<!-- bench: machine -->\ncpu y, cores 2\n<!-- end -->\n"
        "<!-- bench: gemm -->\nkept\n<!-- end -->\n"
        f"<!-- bench: gemm x -->\n\n{table}\n\n<!-- end -->"
    )


def test_of_a_case_in_two_reports_the_later_counts():
    other = report.as_json([Row("gemm", "8x8x8", 1, 1, 1, {})], {}, {}, {}, {})
    found = pages.together([report.as_json(ROWS, {}, {}, {}, {}), other])
    assert [(r.case, r.threads, r.flops) for r in found] == [
        ("8x8x8", 1, 1), ("a|b<c", 1, 0), ("8x8x8", 2, 1024),
    ]  # fmt: skip


def test_a_report_of_another_kind_is_refused():
    with pytest.raises(ValueError, match="no report of mlcnb-benchmark-1: schema is 'x'"):
        report.rows_of({"schema": "x"})


def test_an_unknown_suite_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["gem"])
    error = capsys.readouterr().err
    assert all(name in error for name in ("no suite gem: there are all", *APART, *SUITES))


@pytest.mark.slow
@pytest.mark.parametrize("suite", [s for s in SUITES if s != "models"])
def test_every_case_is_a_sound_model(suite):
    names = []
    for case in SUITES[suite](False):
        onnx.checker.check_model(case.model, full_check=True)
        for given, x in zip(case.model.graph.input, case.inputs, strict=True):
            dims = given.type.tensor_type.shape.dim
            assert x.shape == tuple(
                size if d.dim_param else d.dim_value for d, size in zip(dims, x.shape, strict=True)
            )
        inputs = (i.type.tensor_type.shape.dim for i in case.model.graph.input)
        is_open = suite == "open" or (suite in ("heads", "odd") and "open" in case.name)
        assert any(d.dim_param for dims in inputs for d in dims) == is_open
        names.append(case.name)
    assert len(set(names)) == len(names)


def test_convolutions_come_from_the_models():
    resnet, vgg = (list(conv.distinct(name)) for name in ("resnet50", "vgg19"))
    assert resnet[0].name == "resnet50 3x224 -> 64, 7x7/2 relu"
    assert resnet[0].flops == 2 * 112 * 112 * 64 * 3 * 7 * 7
    assert len(vgg) == 9 and all("3x3 relu" in c.name for c in vgg)
    assert len(resnet) >= 20 and sum("3x3" in c.name for c in resnet) >= 4


@pytest.mark.parametrize(
    ("x", "w", "given"),
    [
        ((1, 4, 7, 9), (6, 4, 3, 3), {"pads": [1, 0, 2, 1]}),
        ((2, 6, 8, 8), (6, 1, 3, 3), {"group": 6, "strides": [2, 1], "pads": [1] * 4}),
        ((1, 4, 9, 9), (8, 2, 2, 3), {"group": 2, "dilations": [2, 1]}),
        ((1, 3, 8, 7), (2, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((1, 3, 8, 7), (2, 3, 2, 4), {"auto_pad": "SAME_LOWER"}),
    ],
)
def test_the_reference_convolution(x, w, given):
    """Ours beside the one of onnx.reference, which is slow and not ours."""
    weights = {"w": random(*w), "b": random(w[0], seed=1)}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **given)
    model = model_of([node], {"x": x}, "y", weights)
    arrays = [random(*x, seed=2)]
    (slow,) = ReferenceEvaluator(exact.in_double(model)).run(
        None, {"x": arrays[0].astype("float64")}
    )
    (found,) = exact.run(model, arrays)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, slow, rtol=1e-12, atol=1e-12)
    assert flops_of(model) == 2 * found.size * int(np.prod(w[1:]))


def test_kept_references_are_read_again():
    case = next(gemm.cases(True))
    first = exact.run_kept(case.model, case.inputs)
    assert len(list(exact.CACHE.glob("*.npz"))) == 1
    np.testing.assert_array_equal(exact.run_kept(case.model, case.inputs)[0], first[0])
    np.testing.assert_allclose(first[0], np.float64(case.inputs[0]) @ case.inputs[1])
    exact.run_kept(case.model, case.inputs[::-1])
    assert len(list(exact.CACHE.glob("*.npz"))) == 2


@pytest.mark.parametrize(
    ("found", "error"), [([1.0, -4.0], 0.0), ([1.0, -3.0], 0.25), ([np.nan, -4.0], np.nan)]
)
def test_errors(found, error):
    got = exact.largest_error([np.array(found, "float32")], [np.array([1.0, -4.0])])
    assert np.array_equal(got, error, equal_nan=True)


def test_a_model_with_drawn_weights():
    """Weights differ, and everybody is as near to float64 as float32 can be."""
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    peers, _ = contestants.installed(("onnxruntime",))
    seen = []

    def looked_at():
        for case in models.cases(names=("shufflenet",)):
            weights = [t for t in case.model.graph.initializer if len(t.dims) == 4]
            assert len({t.raw_data for t in weights}) == len(weights) > 40
            assert case.flops == sum(_conv_flops(case.model))
            seen.append(case.name)
            yield case

    (row,) = measure(looked_at(), [1], peers, 0.01)
    assert seen == ["shufflenet"]
    assert all(r.error < 1e-4 for r in row.results.values())


def _conv_flops(model):
    shapes = shapes_of(model)
    for node in model.graph.node:
        if node.op_type in ("Conv", "Gemm"):
            w, y = shapes[node.input[1]], shapes[node.output[0]]
            depth = np.prod(w[1:]) if node.op_type == "Conv" else shapes[node.input[0]][1]
            yield 2 * int(np.prod(y)) * int(depth)
