"""The two spellings of TVMScript: Apache TVM 0.21 (the default) and 0.27.

One row for each word that differs. The printer writes one spelling; the parser reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import MLCError, as_name


@dataclass(frozen=True)
class Dialect:
    """The words of one version of TVMScript."""

    name: str
    tir: str
    block: str
    block_attr: str
    alloc_buffer: str
    out_sinfo: str
    sinfo_args: str
    any_object: str
    constants: str
    attr_prefix: str

    @property
    def is_new(self) -> bool:
        """True for 0.27."""
        return self.name == "0.27"


OLD = Dialect(
    name="0.21",
    tir="tir",
    block="block",
    block_attr="block_attr",
    alloc_buffer="alloc_buffer",
    out_sinfo="out_sinfo",
    sinfo_args="sinfo_args",
    any_object="Object",
    constants="relax.expr.Constant",
    attr_prefix="tir.",
)
NEW = Dialect(
    name="0.27",
    tir="tirx",
    block="sblock",
    block_attr="sblock_attr",
    alloc_buffer="sblock_alloc_buffer",
    out_sinfo="out_ty",
    sinfo_args="ty_args",
    any_object="Any",
    constants="ir.GenericConst",
    attr_prefix="tirx.",
)
DIALECTS = {d.name: d for d in (OLD, NEW)}


def dialect(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        MLCError: there is none.
    """
    if name not in DIALECTS:
        raise MLCError(f"no TVMScript dialect {name!r}", hint=f"there are {', '.join(DIALECTS)}")
    return DIALECTS[name]


def known_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a function, by the names that nodes hold them by.

    Raises:
        ArgumentError: `global_symbol` is no string.
    """
    found = {known_key(k): v for k, v in attrs.items()}
    if "global_symbol" in found:
        as_name(found["global_symbol"], "the global_symbol of a function")
    return found


def known_key(key: str) -> str:
    """`tirx.noalias` is `tir.noalias`: the name of an attribute or intrinsic, as nodes hold it."""
    if key.startswith(NEW.attr_prefix):
        return OLD.attr_prefix + key.removeprefix(NEW.attr_prefix)
    return key
