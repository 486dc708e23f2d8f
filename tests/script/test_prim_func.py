"""PrimFuncs: signatures, attributes, buffers matched to handles, blocks."""

from __future__ import annotations

import pytest

from mlcnb.core.node import FrozenDict, replace
from mlcnb.ir import prim_ops as p
from mlcnb.ir import structural_equal
from mlcnb.ir.dtype import dtype
from mlcnb.ir.expr import SizeVar, Var
from mlcnb.script import parse, script
from mlcnb.target import Target
from mlcnb.tir.buffer import decl_buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.stmt import Block, BlockRealize, Evaluate
from tests.script.roundtrip import assert_round_trip, assert_text

OLD_ONLY = ("0.21",)
MATMUL = """\
@T.prim_func
def main(A: T.Buffer((128, 64), "float32"), B: T.Buffer((64, 32), "float32"), C: T.Buffer((128, 32), "float32")):
    T.func_attr({"tir.noalias": True})
    # with T.block("root"):
    for i, j, k in T.grid(128, 32, 64):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            T.reads(A[vi, vk], B[vk, vj])
            T.writes(C[vi, vj])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"""  # noqa: E501


def test_matmul() -> None:
    assert_text(MATMUL)


def test_matmul_in_0_27() -> None:
    text = script(parse(MATMUL), dialect="0.27")
    assert text.split("\n")[:9] == [
        "# from tvm.script import tirx as T",
        "# from tvm.tirx.layout import Axis",
        "",
        "@T.prim_func(s_tir=True)",
        MATMUL.split("\n")[1],
        '    T.func_attr({"tirx.noalias": True})',
        '    # with T.sblock("root"):',
        "    for i, j, k in T.grid(128, 32, 64):",
        '        with T.sblock("C"):',
    ]


def test_regions_that_are_not_written_are_found() -> None:
    lines = [
        line for line in MATMUL.split("\n") if "T.reads" not in line and "T.writes" not in line
    ]
    assert structural_equal(parse("\n".join(lines)), parse(MATMUL))


def test_both_spellings_are_read_everywhere() -> None:
    old, new = parse(MATMUL), script(parse(MATMUL), dialect="0.27")
    assert structural_equal(parse(new), old)
    mixed = new.replace("tirx as T", "tir as T").replace("(s_tir=True)", "")
    assert structural_equal(parse(mixed), old)


def test_every_kind_of_parameter() -> None:
    assert_text("""
        @T.prim_func(private=True)
        def main(A: T.Buffer((4,), "int8"), h: T.handle, p: T.handle("float32", "shared"), n: T.int32, x: T.float16, b: T.bool):
            T.evaluate(n)
    """)  # noqa: E501


def test_dynamic_shapes_are_matched_to_handles() -> None:
    assert_text("""
        @T.prim_func
        def main(var_A: T.handle, b: T.handle, k: T.int64):
            T.func_attr({"tir.noalias": True})
            n = T.int64()
            A = T.match_buffer(var_A, (n, T.int64(4)), "float16")
            s = T.int64()
            B = T.match_buffer(b, (n * T.int64(2), k), strides=(s, T.int64(1)), offset_factor=4)
            for i in range(n):
                A[i, T.int64(0)] = T.Cast("float16", B[i, T.int64(0)])
    """)


def test_the_handle_of_a_dynamic_buffer_gets_a_name_of_its_own() -> None:
    handle, n = Var("A", dtype("handle")), Var("n")
    buffer = decl_buffer([n], name="A")
    func = PrimFunc((handle,), Evaluate(p.const(0)), None, FrozenDict({handle: buffer}))
    assert assert_round_trip(func).split("\n")[1:4] == [
        "def main(var_A: T.handle):",
        "    n = T.int32()",
        "    A = T.match_buffer(var_A, (n,))",
    ]


def test_sizes_are_told_apart_in_0_21() -> None:
    text = """
        @T.prim_func
        def main(a: T.handle):
            n = T.int32(is_size_var=True)
            A = T.match_buffer(a, (n,))
            A[0] = T.float32(0.0)
    """
    func = assert_text(text, OLD_ONLY)
    assert isinstance(func.buffers[0].shape[0], SizeVar)
    assert "n = T.int32()\n" in script(func, dialect="0.27")


def test_a_signature_may_speak_of_variables_of_its_body() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer(("n", n * 2), "float32"), k: T.int64, B: T.Buffer((k,), "float32")):
    n = T.int32()
    A[0, 0] = T.float32(1.0)
""")
    rows, columns = func.buffers[0].shape
    assert rows.dtype == "int32"
    assert repr(columns) == "n * 2"
    assert func.buffers[1].shape[0] is func.params[1]


def test_buffers_that_are_not_plain() -> None:
    assert_text("""
        @T.prim_func
        def main(a: T.handle, b: T.handle, c: T.handle):
            A = T.match_buffer(a, (4, 4), "int32", scope="shared", align=128, axis_separators=[1])
            B = T.match_buffer(b, (4, 4), strides=(8, 1), elem_offset=16)
            C = T.match_buffer(c, (4,), data=B.data)
            T.evaluate(0)
    """)


def test_attributes_of_every_kind() -> None:
    func = assert_text("""
        @T.prim_func
        def main(n: T.int32):
            T.func_attr({"a": 1, "b": -1.5, "c": "text", "d": None, "e": [1, [2, "x"]], "f": {"k": True}, "g": T.int64(3), "h": T.float32(1.0), "i": float("inf"), "tir.is_scheduled": True})
            T.evaluate(n)
    """)  # noqa: E501
    assert func.attrs["e"] == (1, (2, "x"))
    assert func.attrs["global_symbol"] == "main"


def test_a_target_is_an_attribute() -> None:
    func = parse("@T.prim_func\ndef main(n: T.int32):\n    T.evaluate(n)")
    text = assert_round_trip(func.with_attr("target", Target({"kind": "llvm", "num-cores": 4})))
    assert '"target": T.target({"keys"' in text or '"target": T.target({"kind": "llvm"' in text


def test_a_name_of_its_own_is_an_attribute() -> None:
    func = parse("@T.prim_func\ndef main(n: T.int32):\n    T.evaluate(n)")
    other = func.with_attr("global_symbol", "kernel")
    assert script(other, header=False, name="f").split("\n")[1:3] == [
        "def f(n: T.int32):",
        '    T.func_attr({"global_symbol": "kernel"})',
    ]
    assert script(other, header=False).split("\n")[1] == "def kernel(n: T.int32):"


def test_axes_of_every_kind() -> None:
    assert_text("""
        @T.prim_func
        def main(A: T.Buffer((16, 16), "float32")):
            # with T.block("root"):
            for i, j in T.grid(16, 4):
                for k in range(2, 6):
                    with T.block("A"):
                        vi = T.axis.spatial(16, i)
                        vj = T.axis.reduce(16, j * 4 + k)
                        vk, vl = T.axis.remap("SR", [k, j])
                        vm = T.axis.spatial((1, 7), k)
                        vo = T.axis.opaque(16, i)
                        vp = T.axis.scan((i, i + 4), i)
                        T.where(j * 4 + k < 15)
                        T.reads()
                        T.writes(A[vi, vj])
                        T.block_attr({"key": [1, "x"]})
                        A[vi, vj] = T.float32(0.0)
    """)


def test_one_axis_alone_is_no_remap() -> None:
    assert_text("""
        @T.prim_func
        def main(A: T.Buffer((16,), "float32")):
            # with T.block("root"):
            for i in range(16):
                with T.block(""):
                    vi = T.axis.spatial(16, i)
                    T.reads()
                    T.writes(A[vi])
                    A[vi] = T.float32(0.0)
    """)


def test_axes_without_sugar() -> None:
    lines = script(parse(MATMUL), syntax_sugar=False, header=False).split("\n")
    assert lines[3:6] == ['    with T.block("root"):', "        T.reads()", "        T.writes()"]
    assert lines[6:12] == [
        "        for i in range(128):",
        "            for j in range(32):",
        "                for k in range(64):",
        '                    with T.block("C"):',
        "                        vi = T.axis.spatial(128, i)",
        "                        vj = T.axis.spatial(32, j)",
    ]
    assert structural_equal(parse("\n".join(lines)), parse(MATMUL))


def test_buffers_and_views_of_a_block() -> None:
    assert_text("""
        @T.prim_func
        def main(A: T.Buffer((16, 16), "float32")):
            # with T.block("root"):
            C = T.alloc_buffer((16, 16), "float16", scope="shared")
            for i in range(4):
                with T.block("outer"):
                    vi = T.axis.spatial(4, i)
                    T.reads(A[vi * 4:vi * 4 + 4, 0:16], C[0:16, vi])
                    T.writes(A[vi, 2:6])
                    D = T.alloc_buffer((4,))
                    s = T.int32()
                    E = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:4], (4, 4), strides=(s, 1), offset_factor=4)
                    with T.init():
                        D[0] = T.float32(0.0)
                    for j in range(4):
                        with T.block("inner"):
                            vj = T.axis.spatial(4, j)
                            T.reads(E[vj, 0])
                            T.writes(D[vj])
                            D[vj] = E[vj, 0]
    """)  # noqa: E501


def test_a_block_around_everything_is_the_root() -> None:
    func = assert_text("""
        @T.prim_func
        def main(A: T.Buffer((16,), "float32")):
            with T.block("root"):
                T.reads()
                T.writes(A[0])
                A[0] = T.float32(0.0)
    """)
    assert isinstance(func.body, BlockRealize)
    assert func.body.block.name_hint == "root"


def test_a_root_with_annotations_is_no_comment() -> None:
    func = parse(MATMUL)
    root = func.body.block
    marked = replace(func.body, block=replace(root, annotations=FrozenDict(key=1)))
    text = assert_round_trip(func.with_body(marked))
    assert '    with T.block("root"):' in text
    assert '        T.block_attr({"key": 1})' in text


def test_a_region_may_be_a_whole_buffer() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((16, 4), "float32")):
    with T.block("b", no_realize=True):
        T.reads(A)
        T.writes([A[0:2], A[3]])
        T.evaluate(0)
""")
    assert [repr(r) for r in func.body.block.reads] == ["A[0:16, 0:4]"]
    assert [repr(r) for r in func.body.block.writes] == ["A[0:2, 0:4]", "A[3, 0:4]"]


def test_a_block_alone_prints() -> None:
    assert repr(Block((), (), (), "b", Evaluate(p.const(0)))).split("\n") == [
        'with T.block("b", no_realize=True):',
        "    T.reads()",
        "    T.writes()",
        "    T.evaluate(0)",
    ]


@pytest.mark.parametrize(
    ("buffer", "text"),
    [
        (decl_buffer((4, 4), name="A"), 'A: T.Buffer((4, 4), "float32")'),
        (decl_buffer((4,), "int8", "B", "shared"), 'B: T.Buffer((4,), "int8", scope="shared")'),
    ],
)
def test_a_buffer_alone_shows_its_declaration(buffer: object, text: str) -> None:
    assert repr(buffer) == text


def test_hostile_names_become_identifiers() -> None:
    names = [
        "<script>alert(1)</script>",
        "lambda",
        "1st",
        "a b",
        "T",
        "é",
        "",
        "cls",
        "a b",
    ]
    params = tuple(Var(name) for name in names)
    func = PrimFunc(params, Evaluate(p.const(0)), attrs=FrozenDict(global_symbol="x y"))
    assert script(func, header=False).split("\n")[1] == (
        "def x_y(_script_alert_1___script_: T.int32, lambda_: T.int32, v_1st: T.int32, "
        "a_b: T.int32, T_1: T.int32, _: T.int32, v: T.int32, cls_1: T.int32, a_b_1: T.int32):"
    )


def test_a_pointer_in_a_call_reaches_the_whole_buffer() -> None:
    func = parse("""
@T.prim_func
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((4, 4), "float32")):
    with T.block("b"):
        T.call_extern("int32", "f", A.data, T.address_of(B[0, 0]))
""")
    assert [repr(r) for r in func.body.block.reads] == ["A[0:16]", "B[0:4, 0:4]"]
    assert [repr(r) for r in func.body.block.writes] == ["A[0:16]", "B[0:4, 0:4]"]


def test_a_point_of_a_region_has_the_dtype_that_it_says():
    func = assert_text(
        """
        @T.prim_func
        def main(A: T.Buffer((T.int64(4), T.int64(8)), "float32")):
            with T.block("one"):
                T.reads(A[0, T.int64(0):T.int64(8)])
                T.writes(A[T.int64(1), 2], A[0, 0:4])
                T.evaluate(0)
        """
    )
    block = func.body.block.body.block if func.body.block.name_hint == "root" else func.body.block
    regions = [r.region for r in (*block.reads, *block.writes)]
    kinds = [[(str(r.min.dtype), str(r.extent.dtype)) for r in region] for region in regions]
    narrow, wide = ("int32",) * 2, ("int64",) * 2
    assert kinds == [[narrow, wide], [wide, narrow], [narrow, narrow]]
