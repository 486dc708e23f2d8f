"""Graphs: what becomes a node, how large ones fold, how they are drawn, and without an engine."""

from __future__ import annotations

import os
import re
import time

import numpy as np
import pytest

import mlcnb
from mlcnb import view
from mlcnb.core.errors import MissingDependencyError, MLCError
from mlcnb.core.node import replace
from mlcnb.ir.module import IRModule
from mlcnb.ir.span import Span
from mlcnb.relax import BlockBuilder, op
from mlcnb.relax import expr as rx
from mlcnb.relax.operator import declarations
from mlcnb.relax.struct_info import TensorStructInfo
from mlcnb.relax.transform import AnnotateTIROpPattern, FuseOps, FuseTIR, LegalizeOps
from mlcnb.runtime.profile import Profile, Row
from mlcnb.script import parse
from mlcnb.view import survey
from mlcnb.view.as_text import to_text
from mlcnb.view.graph import drawing, graph, kinds, layout, paint
from mlcnb.view.graph.fold import chains, ends, fold, groups, repeats
from mlcnb.view.graph.layout import Placed
from mlcnb.view.graph.model import Edge, Model, Node
from tests.op.test_declarations import WITH_LOOPS
from tests.view.allowed import check_html, check_svg, contrast, pictures
from tests.view.samples import matmul, mlp
from tests.view.snapshot import same


def fused() -> IRModule:
    mod = mlp()
    for each in (LegalizeOps(), AnnotateTIROpPattern(), FuseOps()):
        mod = each(mod)
    return mod


def layered(layers: int, same_weights: bool = True) -> IRModule:
    """A residual network of so many layers."""
    x = rx.Var("x", rx.tensor_info((1, 8), "float32"))
    bb = BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            value = x
            for _ in range(layers):
                weight = rx.const(np.ones((8, 8), "float32"))
                inner = bb.emit(op.nn.relu(bb.emit(op.matmul(value, weight))))
                value = bb.emit(op.add(inner, value))
            out = bb.emit_output(value)
        bb.emit_func_output(out)
    return bb.get()


# from a function to nodes and edges


def test_operators_inputs_weights_and_shapes():
    drawn = mlp().graph()
    assert drawn.explain() == (
        "0:x <- nothing\n"
        "1:matmul + 4×8 <- 0:x [1×4 f32]\n"
        "2:relu <- 1:matmul + 4×8 [1×8 f32]\n"
        "3:add <- 2:relu [1×8 f32], 1:matmul + 4×8 [1×8 f32]\n"
        "4:softmax <- 3:add [1×8 f32]\n"
        "5:output <- 4:softmax [1×8 f32]"
    )
    assert [n.sort for n in drawn.model.nodes] == (
        ["input", "product", "elementwise", "elementwise", "normalise", "output"]
    )
    assert repr(drawn) == f"graph of main: 4 operators\n{drawn.explain()}"


def test_fused_groups_are_clusters_or_nodes():
    mod = fused()
    drawn = mod.graph()
    inside = {}
    for node in drawn.model.nodes:
        inside.setdefault(node.cluster, []).append(node.lines[0])
    titles = [c.title for c in drawn.model.clusters]
    assert {titles[k]: v for k, v in inside.items() if k is not None} == {
        "matmul + relu + add": ["matmul", "relu", "add"]
    }
    plain = mod.graph(groups=False)
    assert not plain.model.clusters
    assert len(plain.model.nodes) == len(drawn.model.nodes) - 2


def test_kernels_are_named_by_their_parts():
    drawn = FuseTIR()(fused()).graph()
    lines = [n.lines for n in drawn.model.nodes if n.kernel]
    assert lines[0] == ("matmul + relu + add", "4×8")
    assert [n.sort for n in drawn.model.nodes if n.kernel] == ["product", "normalise"]


def test_kernels_are_named_as_a_person_would():
    """Not by what is prepared, nor by how the axes lie: conv2d + relu, softmax, mean."""
    x, w = (rx.Var(n, TensorStructInfo(s, "float32")) for n, s in SIZES)
    bb = BlockBuilder()
    with bb.function("main", [x, w]):
        with bb.dataflow():
            y = bb.emit(op.nn.relu(op.nn.conv2d(x, w, padding=1)))
            y = bb.emit(op.nn.max_pool2d(y, (2, 2)))
            y = bb.emit(op.mean(y, (2, 3)))
            out = bb.emit_output(op.nn.softmax(y))
        bb.emit_func_output(out)
    made = mlcnb.get_pipeline("default")(bb.get())
    names = [n.lines[0] for n in made.graph().model.nodes if n.kernel]
    found = [x for x in names if "layout_transform" not in x]
    assert found == ["conv2d + relu", "max_pool", "mean", "softmax"]
    table = mlcnb.view.to_text(made)
    assert "conv2d + relu" in table
    assert "pad_temp + " not in table


#: operators that are several steps for a person, too
_SEVERAL = {
    "argsort", "median", "topk", "index_put", "repeat", "multinomial_from_uniform",
    "grad.max_pool1d_backward", "grad.max_pool2d_backward", "grad.max_pool3d_backward",
    "grad.nll_loss_backward", "nn.max_pool_indices",
    "nn.contrib_conv2d_winograd_weight_transform", "vision.all_class_non_max_suppression",
    "vision.get_valid_counts", "vision.multibox_transform_loc",
}  # fmt: skip


def test_the_kernel_of_an_operator_has_one_name():
    """`layer_norm`, not `layer_norm_mean + … + layer`, whatever its blocks are called."""
    told = {(case.op.sugar, survey.words_of(case.prim_func())) for case in WITH_LOOPS}
    assert {op for op, words in told if len(words) > 1} == _SEVERAL
    one = {op: words[0] for op, words in told if len(words) == 1}
    assert one["nn.layer_norm"] == "layer_norm"
    assert one["nn.batch_norm"] == "batch_norm"
    assert one["nn.rms_norm"] == "rms_norm"
    assert one["nn.attention"] == one["nn.attention_var_len"] == "attention"
    assert one["nn.max_pool2d"] == one["nn.max_pool3d"] == "max_pool"
    assert one["nn.avg_pool3d"] == "avg_pool"
    assert (one["nn.softmax"], one["nn.log_softmax"]) == ("softmax", "log_softmax")
    assert one["image.grid_sample"] == "grid_sample"
    assert one["image.resize2d"] == "resize"


SIZES = (("x", (1, 4, 8, 8)), ("w", (4, 4, 3, 3)))


def test_lowered_programs_draw_the_same_kernels():
    before = FuseTIR()(fused())
    after = mlcnb.get_pipeline("lower")(before)
    assert [n.lines for n in after.graph().model.nodes] == [
        n.lines for n in before.graph().model.nodes
    ]
    assert len(after.graph().model.edges) == len(before.graph().model.edges)


def test_tuples_branches_and_casts():
    drawn = parse("""
@R.function
def main(x: R.Tensor((4, 4), dtype="float32"), c: R.Tensor((), dtype="bool")):
    t = R.split(x, indices_or_sections=2, axis=0)
    a: R.Tensor((2, 4), dtype="float32") = t[0]
    b: R.Tensor((2, 4), dtype="float32") = t[1]
    if c:
        y: R.Tensor((2, 4), dtype="float32") = R.add(a, b)
    else:
        y: R.Tensor((2, 4), dtype="float32") = R.multiply(a, b)
    z: R.Tensor((2, 4), dtype="float32") = R.nn.relu(y)
    return (z, a)
""")
    shown = graph(drawn)
    assert shown.explain() == (
        "0:x <- nothing\n"
        "1:c <- nothing\n"
        "2:split <- 0:x [4×4 f32]\n"
        "3:add <- 2:split [2×4 f32]\n"
        "4:multiply <- 2:split [2×4 f32]\n"
        "5:if <- 1:c [scalar bool], 3:add [2×4 f32], 4:multiply [2×4 f32]\n"
        "6:relu <- 5:if [2×4 f32]\n"
        "7:output <- 6:relu [2×4 f32], 2:split [2×4 f32]"
    )
    assert [c.title for c in shown.model.clusters] == ["then", "else"]
    check_svg(shown.svg())


def test_calls_of_other_functions():
    mod = parse("""
@I.ir_module
class Module:
    @R.function
    def twice(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        y: R.Tensor((4,), dtype="float32") = R.add(x, x)
        return y

    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        y: R.Tensor((4,), dtype="float32") = Module.twice(x)
        z = R.call_packed("outside", y, sinfo_args=R.Tensor((4,), dtype="float32"))
        return z
""")
    assert mod.graph().explain().splitlines()[1:3] == [
        "1:twice + add <- 0:x [4 f32]",
        "2:outside <- 1:twice + add [4 f32]",
    ]
    assert mod.graph("twice").explain().startswith("0:x <- nothing\n1:add <- 0:x [4 f32]")


def test_what_is_no_graph():
    mod = IRModule.make({"matmul": matmul})
    with pytest.raises(MLCError, match="no function 'main' in the module: it has matmul"):
        mod.graph()
    with pytest.raises(MLCError, match="'matmul' is no graph function"):
        mod.graph("matmul")


def test_every_operator_has_a_sort():
    others = [name for name in declarations() if kinds.of_operator(name) == "other"]
    assert len(others) < 0.05 * len(declarations()), others


def test_kernels_have_sorts_from_their_loops():
    assert kinds.of_kernel(matmul) == "product"


# folding


def small(count: int, edges: list[tuple[int, int]], names: str = "") -> Model:
    nodes = [Node(i, "elementwise", (names[i] if names else f"n{i}",)) for i in range(count)]
    return Model("f", nodes, [Edge(a, b, "s") for a, b in edges])


def test_a_small_graph_is_not_folded():
    model = small(5, [(0, 1), (1, 2)])
    assert fold(model, 5) is model


def test_chains():
    folded = chains(small(5, [(0, 1), (1, 2), (2, 3), (2, 4)]), 3)
    assert [n.lines for n in folded.nodes] == [("n0", "n1", "n2"), ("n3",), ("n4",)]
    assert folded.edges == [Edge(0, 1, "s"), Edge(0, 2, "s")]
    assert folded.operators == 5


def test_a_product_heads_its_chain():
    model = small(4, [(0, 1), (1, 2), (2, 3)])
    model.nodes[2] = Node(2, "product", ("conv2d", "8×8"))
    assert [n.lines for n in chains(model, 1).nodes] == [("n0", "n1"), ("conv2d 8×8", "n3")]


def test_groups():
    folded = groups(fused().graph().full, 1)
    assert ("matmul 4×8", "relu", "add") in [n.lines for n in folded.nodes]


def test_repeats_are_drawn_once():
    model = small(9, [(i, i + 1) for i in range(8)], "aXYXYXYXb")
    folded = repeats(model, 5)
    assert [n.lines[0] for n in folded.nodes] == ["a", "X", "Y", "X", "b"]
    assert [c.title for c in folded.clusters] == ["× 3"]
    assert [n.cluster for n in folded.nodes] == [None, 0, 0, None, None]
    assert folded.operators == 9
    assert [e for e in folded.edges if e.back] == [Edge(2, 1, "s", True)]


def test_ends():
    folded = ends(small(100, [(i, i + 1) for i in range(99)]), 11)
    assert [n.lines[0] for n in folded.nodes[4:7]] == ["n4", "90 nodes more", "n95"]
    assert len(folded.nodes) == 11
    assert folded.operators == 100


@pytest.mark.parametrize("most", [3, 10, 40, 90])
@pytest.mark.parametrize("layers", [1, 30, 100])
def test_folding_keeps_to_the_limit_and_to_the_work(layers, most):
    drawn = layered(layers).graph(max_nodes=most)
    assert len(drawn.model.nodes) <= max(most, 3)
    assert drawn.model.operators == drawn.full.operators == 3 * layers
    assert all(0 <= e.source < len(drawn.model.nodes) for e in drawn.model.edges)
    assert all(e.source < e.target or e.back for e in drawn.model.edges)
    assert drawn.is_folded == (3 * layers + 2 > most)


def test_a_folded_graph_says_so():
    drawn = layered(100).graph(max_nodes=60)
    assert "folded; all of it: mod.graph()\n" in f"{view.to_text(drawn)}\n"
    large = layered(200).graph()
    assert "folded; all of it: mod.graph(max_nodes=602)" in view.to_text(large)
    parts = large.parts("mod.graph('f')")
    assert "mod.graph('f', max_nodes=602)" in to_text(parts)
    assert drawn.summary == "300 operators, folded to 4 nodes"


# pictures


def test_dot_source():
    same("mlp.dot", mlp().graph().dot.rstrip("\n"))


def test_drawing_at_given_places():
    model = Model(
        "f",
        [Node(0, "input", ("x",)), Node(1, "product", ("conv2d", "<8>"), kernel=True)],
        [Edge(0, 1, "1×3 f32")],
    )
    placed = Placed(
        120.0,
        100.0,
        {0: (60.0, 12.0, 40.0, 24.0), 1: (60.0, 80.0, 80.0, 38.0)},
        {0: ([(60.0, 24.0), (60.0, 30.0), (60.0, 50.0), (60.0, 55.0), (60.0, 61.0)], (90.0, 42.0))},
        {},
    )
    svg = drawing.draw(model, placed, "a title", lambda n: f"about {n.lines[0]}")
    assert check_svg(svg) == [
        *("a title", "products", "input"),
        *("1×3 f32", "about x", "x", "about conv2d", "conv2d", "<8>"),
    ]
    same("picture.svg", svg.replace("><", ">\n<"))


def test_every_sort_can_be_told_apart_without_colour():
    looks = {sort: look.shape for sort, look in kinds.LOOKS.items()}
    assert len(set(looks.values())) == len(looks) - 2  # other = control, output = input
    for look in kinds.LOOKS.values():
        assert contrast("#1b1f24", look.fill) >= 7
        assert contrast(look.ink, "#ffffff") >= 3


def test_the_same_graph_gives_the_same_picture():
    assert mlp().graph().svg() == mlp().graph().svg()
    assert FuseTIR()(fused()).graph().dot == FuseTIR()(fused()).graph().dot


def test_tooltips_say_where_a_node_came_from():
    texts = check_svg(mlp().graph().svg())
    assert any(t.endswith("R.nn.relu(lv)") for t in texts)
    assert not any("R.nn.relu" in t for t in check_svg(mlp().graph().svg(tooltips=False)))


def test_in_a_cell():
    bundle = mlp().graph()._repr_mimebundle_()
    assert bundle["text/plain"].startswith("graph of main: 4 operators\n0:x <- nothing")
    check_html(bundle["text/html"])
    assert len(pictures(bundle["text/html"])) == 1


def test_without_an_engine_there_are_words(monkeypatch):
    monkeypatch.setattr(layout, "find_engine", lambda: None)
    with pytest.raises(MissingDependencyError, match="no `dot` and no `graphviz-pure`"):
        mlp().graph().svg()
    shown = check_html(view.to_html(mlp().graph()))
    assert "hint: pip install graphviz-pure" in shown
    assert "matmul + 4×8 <- 0:x [1×4 f32]" in shown
    assert "TVMScript" in check_html(view.to_html(mlp()))


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("#!/bin/sh\nexit 3\n", "could not lay out the graph"),
        ("#!/bin/sh\necho nonsense\n", "answered with no layout"),
        ("#!/bin/sh\necho '{}'\n", "answered with no layout"),
        ("", "could not lay out the graph"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="the engine is a shell script")
def test_with_a_broken_engine_there_are_words(script, told, monkeypatch, tmp_path):
    engine = tmp_path / "dot"
    engine.write_text(script)
    engine.chmod(0o755)
    monkeypatch.setattr(layout, "find_engine", lambda: engine)
    with pytest.raises(MLCError, match=told):
        mlp().graph().svg()
    assert told in check_html(view.to_html(mlp().graph()))


def test_the_package_graphviz_is_left_as_it_was():
    from graphviz.backend import dot_command

    before = dot_command.DOT_BINARY
    mlp().graph().svg()
    assert dot_command.DOT_BINARY == before


def test_a_thousand_nodes():
    mod = layered(350)
    start = time.perf_counter()
    drawn = mod.graph(max_nodes=2000)
    svg = drawn.svg(tooltips=False)
    seconds = time.perf_counter() - start
    print(f"{len(drawn.model.nodes)} nodes: {seconds:.2f} s, {len(svg):,} bytes")
    assert not drawn.is_folded
    check_svg(svg)


def test_nothing_of_the_answer_but_numbers_is_taken(monkeypatch):
    answer = '{"bb": "0,0,9,9", "objects": [{"name": "n0", "pos": "<b>,1", "width": "1"}]}'
    monkeypatch.setattr("graphviz.pipe_string", lambda *_args, **_options: answer)
    with pytest.raises(MLCError, match="answered with no layout"):
        mlp().graph().svg()


# colours and searching


def timed(mod: IRModule, *names: str) -> Profile:
    """A profile of the calls of a module's main function, 1 ms, 2 ms, …"""
    calls = [b for b in mod["main"].body.bindings if b.var.name_hint in names]
    rows = [
        Row(b.var.name_hint, b.value.args[0].name_hint, i * 1e-3, 0.1, None, None)
        for i, b in enumerate(calls, 1)
    ]
    return Profile(tuple(rows), 1e-3, 1, 1)


def test_by_bytes():
    drawn = mlp().graph(colour="bytes")
    assert drawn.title == "graph of main: 4 operators, coloured by bytes"
    assert [n.lines[-1] for n in drawn.model.nodes[1:5]] == ["32 B · 25.0 %"] * 4
    assert [n.paint for n in drawn.model.nodes] == [None, 4, 4, 4, 4, None]
    texts = check_svg(drawn.svg())
    assert "bytes ≥ 12 %" in texts and "bytes < 1 %" not in texts


def test_bytes_of_sizes_that_are_not_known():
    function = parse("""
@R.function
def main(x: R.Tensor(("n", 4), dtype="float32")):
    n = T.int64()
    y: R.Tensor((n, 4), dtype="float32") = R.nn.relu(x)
    z: R.Tensor((4,), dtype="float32") = R.sum(y, axis=[0])
    return z
""")
    lines = [n.lines[-1] for n in graph(function, colour="bytes").model.nodes[1:3]]
    assert lines == ["16 B · 50.0 %", "16 B · 50.0 %"]


def test_by_time():
    mod = FuseTIR()(fused())
    drawn = mod.graph(profile=timed(mod, "lv2", "gv"))
    assert drawn.colour == "time"
    assert [n.lines[-1] for n in drawn.model.nodes[1:3]] == ["1.00 ms · 33.3 %", "2.00 ms · 66.7 %"]
    assert "1.00 ms · 33.3 %" in drawn.explain()
    check_svg(drawn.svg())


def test_times_of_folded_nodes_add_up():
    mod = FuseTIR()(fused())
    profile = timed(mod, "lv2", "gv")
    drawn = mod.graph(profile=profile, max_nodes=3)
    assert sum(n.amount for n in drawn.model.nodes) == pytest.approx(3e-3)
    for most in (3, 10, 40):
        large = layered(30).graph(colour="bytes", max_nodes=most)
        assert sum(n.amount for n in large.model.nodes) == 90 * 32


def test_what_cannot_be_coloured_is_refused():
    mod = mlp()
    with pytest.raises(MLCError, match="graph: no colour 'red'\nhint: kind, provenance, bytes"):
        mod.graph(colour="red")
    with pytest.raises(MLCError, match="graph: time needs a profile\nhint: graph\\(ex, profile="):
        mod.graph(colour="time")
    with pytest.raises(MLCError, match="none of the profile's calls is in this graph"):
        mod.graph(profile=Profile((Row("other", "k", 1.0, 1.0, None, None),), 1.0, 1, 1))


def scoped() -> IRModule:
    """Three operators of two parts of a model, and one that says only what sort it was."""
    x = rx.Var("x", rx.tensor_info((4,), "float32"))
    places = ("/stem/Relu", "/head/a/Tanh", "/head/b/Exp", "n3")
    bb = BlockBuilder()
    with bb.function("main", [x]):
        value = x
        for place, kind in zip(places, (op.nn.relu, op.tanh, op.exp, op.abs), strict=True):
            call = replace(kind(value), span=Span("onnx", place, kind=place.rpartition("/")[2]))
            value = bb.emit(call)
        bb.emit_func_output(value)
    return bb.get()


def test_by_provenance():
    drawn = scoped().graph(colour="provenance")
    lines = [n.lines[-1] for n in drawn.model.nodes]
    assert lines == ["x", "A: stem", "B: head", "B: head", "C: n3", "output"]
    assert [p.words for p in drawn.model.paints] == ["A stem", "B head", "C n3"]
    assert check_svg(drawn.svg())[1:4] == ["A stem", "B head", "C n3"]


def test_colours_can_be_read():
    for _, fill in paint._HEAT:
        assert contrast("#1b1f24", fill) >= 7
    assert all(contrast("#1b1f24", fill) >= 7 for fill in paint._TINTS)


def test_what_is_found_is_marked_and_not_folded():
    mod = scoped()
    drawn = mod.graph(find="HEAD", max_nodes=3)
    assert drawn.summary.endswith("2 found for 'HEAD'")
    assert [n.lines[0] for n in drawn.model.nodes if n.found] == ["tanh"]
    assert drawn.explain().splitlines()[2].startswith("* 2:tanh <- ")
    whole = mod.graph(find="head")
    assert [n.lines[0] for n in whole.model.nodes if n.found] == ["tanh", "exp"]
    assert "found" in check_svg(whole.svg())
    assert not mod.graph(find="nothing").found


@pytest.mark.parametrize("most", [10, 40, 90])
def test_finding_keeps_to_the_limit(most):
    for text in ("matmul", "relu", "x"):
        drawn = layered(30).graph(find=text, max_nodes=most)
        assert len(drawn.model.nodes) <= most + 1
        assert drawn.model.operators == 90


def test_an_executable_is_drawn_as_its_module():
    ex = mlcnb.compile(mlp(), target="interp")
    assert graph(ex).explain() == ex.mod.graph().explain()


def test_a_time_is_that_of_variable_and_kernel():
    mod = FuseTIR()(fused())
    profile = timed(mod, "lv2", "gv")
    with pytest.raises(MLCError, match="none of the profile's calls is in this graph"):
        mlp().graph(profile=profile)  # the same variables, other calls


def test_sizes_that_are_not_known_are_named_once():
    function = parse("""
@R.function
def main(x: R.Tensor(("batch", 4), dtype="float32")):
    batch = T.int64()
    y: R.Tensor((batch, 4), dtype="float32") = R.nn.relu(x)
    z: R.Tensor((batch, 4), dtype="float32") = R.tanh(y)
    return z
""")
    title = view.to_text(function).splitlines()[0]
    assert title.count("batch = 1") == 1


def image_network():
    """Three stages of convolutions, each at half the size of the one before."""
    from mlcnb.relax.frontend import nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            steps = [2 if n % 4 == 0 else 1 for n in range(12)]
            self.layers = nn.ModuleList(
                [nn.Conv2D(4, 4, 3, stride=s, padding=1, bias=False) for s in steps]
            )

        def forward(self, x):
            for layer in self.layers:
                x = nn.op.relu(layer(x))
            return x

    image = nn.spec.Tensor((1, 4, 64, 64), "float32")
    mod, _ = Network().export_tvm({"forward": {"x": image}})
    return mod["forward"]


def test_an_overview_of_a_network_of_images_has_its_stages():
    drawn = graph(image_network(), overview=True)
    assert [n.lines for n in drawn.model.nodes if n.folded] == [
        (f"at {n}×{n}: 8 operators", "conv2d ×4", "relu ×4") for n in (32, 16, 8)
    ]
    assert sum(n.size for n in drawn.model.nodes) == sum(n.size for n in drawn.full.nodes)
    assert graph(mlp(), overview=True).explain() == mlp().graph().explain()


def test_a_tall_picture_stands_in_columns():
    """Every node and every label once, and no wider than a notebook beside its list of files."""
    drawn = graph(image_network())
    svg = drawn.svg(tooltips=False)
    texts = check_svg(svg)
    windows = re.findall(r'<svg x="([\d.]+)" y="[\d.]+" width="([\d.]+)" height="([\d.]+)"', svg)
    assert len(windows) > 1
    last_x, last_width, _ = map(float, windows[-1])
    assert last_x + last_width <= drawing.WIDE + 2 * drawing.MARGIN
    highest = max(float(height) for _, _, height in windows)
    assert highest < 0.8 * drawn._placed.height
    assert texts.count("conv2d") == texts.count("relu") == 12
    labels = [t for t in texts if t.endswith(" f32")]
    assert len(labels) == len(drawn.model.edges)
