"""Every declared operator, by the cases that its family lists."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from mlcnb.ir.dtype import dtype
from mlcnb.ir.prim_ops import as_int
from mlcnb.relax.operator import OpDecl, declarations
from tests.op.harness import Case

TABLES = [
    importlib.import_module(f"tests.op.{path.stem}")
    for path in sorted(Path(__file__).parent.glob("cases_*.py"))
]
CASES: list[Case] = [case for table in TABLES for case in table.CASES]
WITH_LOOPS = [case for case in CASES if case.loops]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_inference_gives_the_shapes_and_dtypes_of_the_meaning(case: Case):
    inferred = case.inferred()
    expected = case.expected()
    assert [i.dtype for i in inferred] == [dtype(e.dtype.name) for e in expected]
    assert [i.ndim for i in inferred] == [e.ndim for e in expected]
    for info, array in zip(inferred, expected, strict=True):
        if info.dims is not None:
            assert tuple(as_int(d) for d in info.dims) == array.shape


@pytest.mark.parametrize("case", WITH_LOOPS, ids=str)
def test_loops_compute_the_meaning(case: Case):
    case.check(case.run_loops())


@pytest.mark.parametrize("table", TABLES, ids=lambda t: t.__name__.rpartition(".")[2])
def test_every_operator_of_the_family_has_a_case(table):
    tried = {case.op.op_name for case in table.CASES}
    declared = {n: d for n, d in declarations().items() if d.__module__ in table.MODULES}
    with_loops = {n for n, d in declared.items() if d.compute is not OpDecl.compute}
    assert declared
    assert with_loops - {c.op.op_name for c in table.CASES if c.loops} == set()
    assert set(declared) - tried == set()


def test_every_declaration_says_what_it_does():
    silent = [name for name, decl in declarations().items() if not (decl.__doc__ or "").strip()]
    assert silent == []


def test_operators_of_a_family_have_the_fields_of_their_base():
    found = declarations()
    two, three = found["relax.image.resize2d"], found["relax.image.resize3d"]
    assert two.arguments == three.arguments == {"data": "Tensor", "size": "Shape"}
    assert two.node_fields == three.node_fields
    assert (two().layout, three().layout) == ("NCHW", "NCDHW")
    assert len(two().roi) == 4 and len(three().roi) == 6
    indices = found["relax.nn.max_pool_indices"]  # has fields of its own: none of Pool's
    assert "layout" not in indices.node_fields and "count_include_pad" not in indices.numbers
    with pytest.raises(TypeError, match="pool_size"):
        indices()


@pytest.mark.parametrize(
    ("name", "attrs", "plain"),
    [
        ("conv1d", {}, True),
        ("conv2d", {}, True),
        ("conv3d", {}, True),
        ("conv2d_transpose", {}, True),
        ("conv2d", {"data_layout": "NHWC"}, False),
        ("conv2d", {"data_layout": "NCHW", "out_layout": "NHWC"}, False),
        ("conv2d", {"data_layout": "NCHW16c"}, False),
        ("conv2d", {"kernel_layout": "OIHW16o"}, False),
        ("conv2d_transpose", {"kernel_layout": "OIHW"}, False),
    ],
)
def test_a_convolution_knows_whether_its_layouts_are_plain(name, attrs, plain):
    assert declarations()[f"relax.nn.{name}"](**attrs).is_plain is plain
