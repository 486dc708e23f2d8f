"""Errors: what they say, safe to print."""

from __future__ import annotations

from mlcnb.core.errors import MLCError


def test_control_characters_of_names_do_not_reach_a_terminal():
    error = MLCError("no node 'a\x1b[31m\u202e\x9b'", hint="try\x07 'b\r'")
    assert str(error) == "no node 'a\\x1b[31m\\u202e\\x9b'\nhint: try\\x07 'b\\x0d'"
