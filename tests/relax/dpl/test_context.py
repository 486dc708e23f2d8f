"""Constraints between bindings: used by, only used by, forks, one shape."""

from __future__ import annotations

import pytest

from mlcnb.core.errors import ArgumentError, MLCError
from mlcnb.relax.dpl import PatternContext, is_op, is_seq, is_var, wildcard
from mlcnb.script import relax as R


@R.function
def diamond(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32")):
    with R.dataflow():
        a = R.matmul(x, w)
        b = R.nn.relu(a)
        c = R.exp(a)
        d = R.add(b, c)
        R.output(d)
    return d


BLOCK = diamond.body.blocks[0]
A, B, C, D = (b.var for b in BLOCK.bindings)


def parts() -> list:
    return [
        is_op("relax.matmul")(wildcard(), wildcard(), add_constraint=False),
        is_op("relax.nn.relu")(wildcard(), add_constraint=False),
        is_op("relax.exp")(wildcard(), add_constraint=False),
        is_op("relax.add")(wildcard(), wildcard(), add_constraint=False),
    ]


def test_a_diamond() -> None:
    with PatternContext() as ctx:
        m, r, e, s = parts()
        m.fork_to(r, e)
        r >> s
        e >> s
        found = ctx.match_dfb(BLOCK)
    assert found is not None
    assert [found[p] for p in (m, r, e, s)] == [A, B, C, D]


def test_only_used_by_is_only() -> None:
    with PatternContext() as ctx:
        m, r, *_ = parts()
        m >> r
        assert ctx.match_dfb(BLOCK) is None
        assert ctx.failure is not None
        assert ctx.failure.reason == "a is used by c too, not only by b"
    with PatternContext() as ctx:
        m, r, *_ = parts()
        m ^ r
        assert ctx.match_dfb(BLOCK)[r] is B


def test_a_chain_and_its_parts() -> None:
    with PatternContext() as ctx:
        m, r, _, s = parts()
        chain = m ^ r >> s
        found = ctx.match_dfb(BLOCK)
    assert found[chain[0]] is A and found[chain[2]] is D and len(chain) == 3
    with PatternContext() as ctx:
        chain = is_seq(*parts()[1:3])
        assert ctx.match_dfb(BLOCK) is None


def test_calls_link_their_arguments() -> None:
    with PatternContext() as ctx:
        x = is_var("x")
        product = is_op("relax.matmul")(x, wildcard())
        is_op("relax.nn.relu")(product)
        found = ctx.match_dfb(BLOCK)
    assert found[x] is diamond.params[0] and found[product] is A


def test_an_index_of_an_argument() -> None:
    for index, fits in ((0, True), (1, False)):
        with PatternContext() as ctx:
            _, r, _, s = parts()
            r.used_by(s, index)
            assert bool(ctx.match_dfb(BLOCK)) is fits


def test_incremental_contexts_add_to_those_around_them() -> None:
    with PatternContext() as outer:
        m, r, e, s = parts()
        m ^ r
        with PatternContext(incremental=True) as inner:
            r >> s
            assert inner.match_dfb(BLOCK)[s] is D
            assert PatternContext.current() is inner
        with PatternContext(incremental=True) as wrong:
            r >> e
            assert wrong.match_dfb(BLOCK) is None
        assert s not in outer.match_dfb(BLOCK)
        assert PatternContext.current() is outer


def test_dup_of_a_chain_is_found_elsewhere() -> None:
    @R.function
    def twice(x: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.exp(a)
            c = R.nn.relu(x)
            d = R.exp(c)
            e = R.add(b, d)
            R.output(e)
        return e

    with PatternContext() as ctx:
        one = is_op("relax.nn.relu")(wildcard(), add_constraint=False) >> is_op("relax.exp")(
            wildcard(), add_constraint=False
        )
        two = one.dup()
        is_var("x").fork_to(one, two)
        found = ctx.match_dfb(twice.body.blocks[0])
    assert {found[one[1]].name_hint, found[two[1]].name_hint} == {"b", "d"}


def test_one_shape() -> None:
    for pattern, fits in (("relax.nn.relu", True), ("relax.sum", False)):

        @R.function
        def main(x: R.Tensor((4, 4), "float32")):
            with R.dataflow():
                a = R.exp(x)
                b = R.nn.relu(a)
                c = R.sum(a)
                d = R.add(b, c)
                R.output(d)
            return d

        with PatternContext() as ctx:
            e = is_op("relax.exp")(wildcard())
            other = is_op(pattern)(e)
            e.same_shape_as(other)
            assert bool(ctx.match_dfb(main.body.blocks[0])) is fits


def test_hints() -> None:
    with PatternContext() as ctx:
        m, r, e, _ = parts()
        m ^ (r | e)
        assert C in ctx.match_dfb(BLOCK, start_hint=C, must_include_hint=True).values()
        assert ctx.match_dfb(BLOCK, start_hint=D, must_include_hint=True) is None


def test_refusals() -> None:
    with pytest.raises(MLCError, match="same_shape_as holds between the values of one block"):
        wildcard().same_shape_as(wildcard())
    with PatternContext() as ctx:
        with pytest.raises(ArgumentError, match="nothing is said in this PatternContext"):
            ctx.match_dfb(BLOCK)
        wildcard() ^ wildcard()
        with pytest.raises(ArgumentError, match="matches a block, not a Function"):
            ctx.match_dfb(diamond)
        with pytest.raises(ArgumentError, match="int is no pattern"):
            wildcard() >> 3
