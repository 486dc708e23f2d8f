"""Python text built by hand as a tree: what is printed reads as the same tree."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcnb.core.errors import ArgumentError
from mlcnb.ir.path import ObjectPath
from mlcnb.script.printer import doc as d
from mlcnb.script.printer.doc import OperationKind as Kind
from mlcnb.script.printer.doc_printer import to_python_script

X, Y, Z = (d.IdDoc(name) for name in "xyz")


def op(kind: Kind, *operands: d.ExprDoc) -> d.OperationDoc:
    return d.OperationDoc(kind, operands)


@pytest.mark.parametrize(
    ("doc", "text"),
    [
        (d.LiteralDoc('a"\n\\\x88é'), r'"a\"\n\\\x88é"'),
        (d.LiteralDoc(None), "None"),
        (d.LiteralDoc(-2).attr("real"), "(-2).real"),
        (d.LiteralDoc(2).attr("real"), "(2).real"),
        (d.LiteralDoc(float("inf")), 'float("inf")'),
        (op(Kind.Pow, d.LiteralDoc(-2), d.LiteralDoc(-2)), "(-2) ** -2"),
        (op(Kind.Add, X, Y)[Z].call(X, key=Y).attr("shape"), "(x + y)[z](x, key=y).shape"),
        (X[()], "x[()]"),
        (X[d.SliceDoc(None, Y), d.SliceDoc(Y, None, Z), Z], "x[:y, y::z, z]"),
        (op(Kind.Mult, X, op(Kind.Mult, Y, Z)), "x * (y * z)"),
        (op(Kind.Lt, op(Kind.Lt, X, Y), Z), "(x < y) < z"),
        (op(Kind.IfThenElse, X, op(Kind.IfThenElse, Y, X, Z), Z), "(x if y else z) if x else z"),
        (d.LambdaDoc([], op(Kind.Not, op(Kind.Not, X))), "lambda : not not x"),
        (d.TupleDoc([d.ListDoc([]), d.DictDoc({d.LiteralDoc("k"): X})]), '([], {"k": x})'),
        (d.TupleDoc([X]), "(x,)"),
    ],
)
def test_expressions(doc, text):
    assert to_python_script(doc) == text
    assert ast.unparse(ast.parse(text))


def program() -> d.ClassDoc:
    """A class with a function that has one of every statement."""
    loop = d.ForDoc(d.TupleDoc([X, Y]), d.IdDoc("T").attr("grid").call(X, X), [d.ReturnDoc(X)])
    loop.comment = "all\nof them"
    assign = d.AssignDoc(d.TupleDoc([X, d.TupleDoc([Y, Z])]), Z)
    assign.comment = "three"
    body = [
        d.AssignDoc(X, Y, d.IdDoc("int")),
        d.AssignDoc(X, None, d.IdDoc("int")),
        assign,
        loop,
        d.WhileDoc(X, []),
        d.CommentDoc(""),
        d.IfDoc(X, [], [d.ExprStmtDoc(X.call())]),
        d.ScopeDoc(X, Y.call(), [d.CommentDoc("two\n\nlines")]),
        d.ScopeDoc(None, Y, [d.AssertDoc(X, d.LiteralDoc("no"))]),
        d.DocStringDoc("text"),
    ]
    args = [d.AssignDoc(X, None, d.IdDoc("int")), d.AssignDoc(Y, d.LiteralDoc(1))]
    function = d.FunctionDoc(d.IdDoc("f"), args, [X, Y.attr("g")], d.LiteralDoc(None), body)
    function.comment = "What\n\nit does"
    return d.ClassDoc(d.IdDoc("M"), [X], [function, function, d.ExprStmtDoc(X)])


FUNCTION = '''\
    @x
    @y.g
    def f(x: int, y = 1) -> None:
        """
        What

        it does
        """
        x: int = y
        x: int
        x, (y, z) = z  # three
        # all
        # of them
        for x, y in T.grid(x, x):
            return x
        while x:
            pass
        if x:
            pass
        else:
            x()
        with y() as x:
            # two
            #
            # lines
        with y:
            assert x, "no"
        """
        text
        """
'''


def test_statements():
    assert to_python_script(program()) == f"@x\nclass M:\n{FUNCTION}\n{FUNCTION}\n    x"
    assert repr(program()) == to_python_script(program())
    assert to_python_script(d.StmtBlockDoc([])) == to_python_script(d.DocStringDoc("")) == ""


def named(name: str, *paths: str) -> d.ExprStmtDoc:
    doc = d.IdDoc(name)
    doc.source_paths = [ObjectPath.root().attr(path) for path in paths]
    return d.ExprStmtDoc(doc)


def test_what_is_underlined():
    block = d.StmtBlockDoc([named(f"x{n}", "yes" if n in (6, 9) else "no") for n in range(12)])
    yes = ObjectPath.root().attr("yes")
    assert to_python_script(
        block, print_line_numbers=True, num_context_lines=1, path_to_underline=[yes.attr("more")]
    ) == (
        "   (... 5 lines skipped ...)\n"
        " 6 x5\n 7 x6\n   ^^\n 8 x7\n 9 x8\n10 x9\n   ^^\n11 x10\n12 x11"
    )
    first = named("y", "yes")
    longer = d.IdDoc("z")
    longer.source_paths = [yes.attr("more")]
    both = d.StmtBlockDoc([first, d.ExprStmtDoc(longer)])
    assert to_python_script(both, path_to_underline=[yes.attr("more")]) == "y\nz\n^"
    both.source_paths = (ObjectPath.root(),)
    assert to_python_script(both, path_to_underline=[ObjectPath.root()]) == "y\n^\nz\n^"
    assert to_python_script(both, path_to_underline=[yes]) == "y\n^\nz"


def test_what_is_no_doc_of_python():
    for make, message in (
        (lambda: d.AssignDoc(X), "AssignDoc: neither a value nor an annotation is given"),
        (
            lambda: d.AssignDoc(d.TupleDoc([X]), Y, Z),
            "AssignDoc: only one name can have an annotation",
        ),
        (lambda: d.IfDoc(X, [], []), "IfDoc: both branches are empty"),
        (lambda: to_python_script(op(Kind.Add, X)), "OperationDoc: Add has 2 operands, not 1"),
        (lambda: to_python_script(d.ReturnDoc(3)), "int is no doc of Python"),
    ):
        with pytest.raises(ArgumentError) as caught:
            make()
        assert str(caught.value) == message
    done = d.ReturnDoc(X)
    done.comment = "a\nb"
    with pytest.raises(ArgumentError, match="a comment of ReturnDoc cannot have newline"):
        to_python_script(done)
    with pytest.raises(TypeError, match="LiteralDoc: list is no literal of Python"):
        d.LiteralDoc([])
    with pytest.raises(RuntimeError, match="IdDoc cannot be iterated over"):
        list(X)


def test_docs_hold_what_they_are_given():
    doc = d.ReturnDoc(X)
    doc.comment = "text"
    assert (doc.comment, vars(doc)) == ("text", {"value": X})
    doc.source_paths = [ObjectPath.root()]
    assert doc.source_paths == (ObjectPath.root(),) and d.IdDoc("x").source_paths == ()
    call = X.call(Y, a=Z)
    assert (call.callee, call.args, call.kwargs_keys, call.kwargs_values) == (X, (Y,), ("a",), (Z,))


UNARY = [Kind.USub, Kind.Invert, Kind.Not]
BINARY = [kind for kind in Kind if Kind._BinaryStart < kind < Kind._BinaryEnd]
SIGNS = dict(zip(BINARY, "+ - * / // % ** << >> & | ^ < <= == != > >= and or".split(), strict=True))


def expressions(inner):
    """A doc and its text with parentheses everywhere."""
    sign = {Kind.USub: "-", Kind.Invert: "~", Kind.Not: "not "}
    return st.one_of(
        st.builds(lambda k, a: (op(k, a[0]), f"({sign[k]}{a[1]})"), st.sampled_from(UNARY), inner),
        st.builds(
            lambda k, a, b: (op(k, a[0], b[0]), f"({a[1]} {SIGNS[k]} {b[1]})"),
            st.sampled_from(BINARY),
            inner,
            inner,
        ),
        st.builds(
            lambda a, b, c: (
                op(Kind.IfThenElse, a[0], b[0], c[0]), f"({b[1]} if {a[1]} else {c[1]})",
            ),
            inner,
            inner,
            inner,
        ),
        st.builds(lambda a: (d.LambdaDoc([X], a[0]), f"(lambda x: {a[1]})"), inner),
        st.builds(lambda a, b: (a[0].call(b[0]), f"({a[1]}({b[1]}))"), inner, inner),
        st.builds(lambda a, b: (a[0][b[0]], f"({a[1]}[{b[1]}])"), inner, inner),
        st.builds(lambda a: (a[0].attr("y"), f"({a[1]}.y)"), inner),
    )  # fmt: skip


leaves = st.sampled_from(
    [(X, "x"), (d.LiteralDoc(-1), "(-1)"), (d.LiteralDoc(2), "(2)"), (d.LiteralDoc("s"), "'s'")]
)


@given(st.recursive(leaves, expressions, max_leaves=8))
def test_parentheses_stand_where_python_needs_them(pair):
    doc, full = pair
    found = ast.parse(to_python_script(doc), mode="eval")
    assert ast.dump(_flat(found)) == ast.dump(_flat(ast.parse(full, mode="eval")))


class _Flat(ast.NodeTransformer):
    """`x and y and z` is one node to Python, `(x and y) and z` two: the same."""

    def visit_BoolOp(self, node):
        self.generic_visit(node)
        head, *rest = node.values
        if isinstance(head, ast.BoolOp) and type(head.op) is type(node.op):
            return ast.BoolOp(node.op, [*head.values, *rest])
        return node


def _flat(tree):
    return _Flat().visit(tree)
