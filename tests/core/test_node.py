"""Node classes: dataclasses whose objects stay as they are."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from typing import Any

import pytest

from mlcnb.core.node import Node, hidden, identical, node, replace


@node
class _Pair(Node):
    """Two things."""

    one: Any
    two: Any = 2
    seen: Any = hidden()


def test_a_node_class_is_a_dataclass_whose_objects_stay_as_they_are():
    told = "(one: 'Any', two: 'Any' = 2, seen: 'Any' = None) -> None"
    assert str(inspect.signature(_Pair)) == told
    pair = _Pair(1, seen=[3])
    assert (pair.one, pair.two, pair.seen) == (1, 2, [3])
    assert dataclasses.is_dataclass(pair) and dataclasses.replace(pair, one=7).one == 7
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'one'"):
        pair.one = 5
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'one'"):
        del pair.one
    for made in (copy.copy(pair), copy.deepcopy(pair)):
        assert type(made) is _Pair and (made.one, made.two, made.seen) == (1, 2, [3])
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'one'"):
        _Pair()
    match pair:
        case _Pair(one, two):
            assert (one, two) == (1, 2)


def test_a_constructor_is_written_when_it_is_asked_for():
    @node
    class Late(_Pair):
        three: Any = 3

    assert not inspect.isfunction(vars(Late)["__init__"])
    made = Late(1)
    assert inspect.isfunction(vars(Late)["__init__"])
    assert (made.one, made.two, made.seen, made.three) == (1, 2, None, 3)
    assert Late(1, three=4).three == 4 and Late.__match_args__ == ("one", "two", "seen", "three")


def test_what_is_replaced_by_itself_is_the_very_node():
    a, b = _Pair(1), _Pair(2)
    pair = _Pair((a, b), a, seen=[3])
    assert replace(pair, one=pair.one, two=a) is pair
    assert replace(pair, one=(a, b)) is pair
    made = replace(pair, one=(a, b), two=b)
    assert made.one is pair.one and made.two is b and made.seen == [3]
    assert replace(pair, one=(a, _Pair(2))) is not pair
    assert replace(pair, one=[a, b]).one == [a, b]


def test_identical_means_the_very_same_things():
    a, b = _Pair(1), _Pair(1)
    assert identical((a, b), [a, b]) and identical((), ())
    assert not identical((a, b), (b, a)) and not identical((a,), (a, b))
