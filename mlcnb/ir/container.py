"""The immutable containers that nodes hold, by TVM's names."""

from __future__ import annotations

from mlcnb.core.node import FrozenDict

Array = tuple
Map = FrozenDict
