"""Numbers and strings as Python source, so that reading them back gives the same value.

A float is written with the fewest digits that give it back in its own dtype: 0.1, not
0.10000000149011612. Infinities and NaN are the strings "inf", "-inf", "nan".
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache

from mlcnb.ir.dtype import dtype


def string(value: str) -> str:
    """A double-quoted Python literal; what is not printable is escaped."""
    if value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    escaped = "".join(_character(c) for c in value)
    return f'"{escaped}"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def _character(c: str) -> str:
    if c in _ESCAPES:
        return _ESCAPES[c]
    if c.isprintable():
        return c
    code = ord(c)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float, kind: str) -> str:
    """A float of dtype `kind` as the argument of `T.float32(…)`."""
    if math.isfinite(value):
        return shortest(value, kind, struct.pack("d", value))
    negative = math.copysign(1.0, value) < 0
    return f'"{"-" if negative else ""}{"nan" if math.isnan(value) else "inf"}"'


@lru_cache(maxsize=4096)
def shortest(value: float, kind: str, _bits: bytes = b"") -> str:
    """The shortest decimal that reads back as `value` in dtype `kind` (bits tell 0.0 from -0.0)."""
    if kind == "float64":
        return repr(value)
    import numpy as np

    as_kind = dtype(kind).numpy.type
    with np.errstate(all="ignore"):
        for digits in range(1, 17):
            text = repr(float(f"{value:.{digits}g}"))
            if float(as_kind(float(text))) == value:
                return text
    return repr(value)


def is_rounded_beyond(value: float, kind: str) -> bool:
    """True where the shortest decimal lies beyond the dtype: 3.4028235e38, the largest float32."""
    return math.isfinite(value) and abs(float(number(value, kind))) > abs(value) == _largest(kind)


@lru_cache(maxsize=16)
def _largest(kind: str) -> float:
    from ml_dtypes import finfo

    return float(finfo(dtype(kind).numpy).max)
