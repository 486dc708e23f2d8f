"""Shared checks show what differs, as tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.script.roundtrip")
