"""blas: products of matrices by the OpenBLAS that NumPy (or SciPy) ships.

The library is found as threadpoolctl finds it: among what this process has loaded, and beside
NumPy and SciPy. Its `gemm` is called through ctypes, which lets other threads of Python run.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from mlcnb.core.errors import MissingDependencyError
from mlcnb.core.registry import register_func
from mlcnb.ir.external import ExternalModule
from mlcnb.relax.analysis.struct_info import same_dims
from mlcnb.relax.backend.by_calls import by_calls
from mlcnb.relax.backend.pattern_registry import register_patterns
from mlcnb.relax.backend.patterns import matmul_patterns
from mlcnb.relax.backend.utils import dims_of, dtype_of, has_leaking_intermediate_variables
from mlcnb.relax.transform.fuse_ops_by_pattern import PatternCheckContext

#: NumPy's name of a dtype -> the letter of its functions, and the type of a scalar
_KINDS = {"float32": ("s", ctypes.c_float), "float64": ("d", ctypes.c_double)}
_ROW_MAJOR, _PLAIN, _TRANSPOSED = 101, 111, 112
#: what stands before and behind the names in the libraries that wheels and systems ship
_SPELLINGS = (
    ("scipy_", "64_"),
    ("scipy_", ""),
    ("", "64_"),
    ("", "_64"),
    ("", ""),
)


class Blas:
    """A BLAS that was found.

    Attributes:
        path: the library's file.
        prefix, suffix: around the names of its functions.
        index: the type of sizes: 64 bits where the names say so.
    """

    def __init__(self, path: str, prefix: str, suffix: str) -> None:
        self.path, self.prefix, self.suffix = path, prefix, suffix
        self.index = ctypes.c_int64 if "64" in suffix else ctypes.c_int
        self._library = ctypes.CDLL(path)
        self._gemm = {kind: self._function(*found) for kind, found in _KINDS.items()}

    def _function(self, letter: str, scalar: Any) -> Any:
        found = getattr(self._library, f"{self.prefix}cblas_{letter}gemm{self.suffix}")
        n, array = self.index, ctypes.c_void_p
        enums = [ctypes.c_int] * 3
        found.argtypes = [*enums, n, n, n, scalar, array, n, array, n, scalar, array, n]
        found.restype = None
        return found

    @property
    def config(self) -> str:
        """What the library says of itself; "" where it says nothing."""
        say = getattr(self._library, f"{self.prefix}openblas_get_config{self.suffix}", None)
        if say is None:
            return ""
        say.restype = ctypes.c_char_p
        return (say() or b"").decode("ascii", "replace")

    def matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """a @ b, of one dtype, float32 or float64; a of shape (…, m, k), b (k, n) or (…, k, n)."""
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        out = np.empty((*a.shape[:-1], n), a.dtype)
        if not out.size or not k:
            out[...] = 0
        elif b.ndim == 2:
            self.gemm(np.ascontiguousarray(a).reshape(-1, k), b, out.reshape(-1, n))
        else:
            pairs = zip(
                a.reshape(-1, m, k), b.reshape(-1, k, n), out.reshape(-1, m, n), strict=True
            )
            for one, two, made in pairs:
                self.gemm(one, two, made)
        return out

    def gemm(self, a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        """out = a @ b for matrices that are not empty; `out` in one piece, row by row."""
        (a, flag_a, lda), (b, flag_b, ldb) = _laid_out(a), _laid_out(b)
        m, k = a.shape
        n = b.shape[1]
        self._gemm[out.dtype.name](
            _ROW_MAJOR, flag_a, flag_b, m, n, k, 1.0, a.ctypes.data, lda, b.ctypes.data, ldb,
            0.0, out.ctypes.data, n,
        )  # fmt: skip


def _laid_out(x: np.ndarray) -> tuple[np.ndarray, int, int]:
    """A matrix, whether it lies column by column, and how far its rows (or columns) are apart."""
    if x.flags.c_contiguous:
        return x, _PLAIN, max(1, x.shape[1])
    if x.flags.f_contiguous:
        return x, _TRANSPOSED, max(1, x.shape[0])
    return np.ascontiguousarray(x), _PLAIN, max(1, x.shape[1])


def _loaded() -> Iterator[str]:
    """The files of BLAS libraries that this process has loaded (where the system tells)."""
    maps = Path("/proc/self/maps")
    if maps.exists():
        for line in maps.read_text().splitlines():
            name = line.partition("/")[2]
            if "blas" in name.rpartition("/")[2].casefold():
                yield f"/{name}"


def _shipped() -> Iterator[str]:
    """The files of BLAS libraries beside NumPy and SciPy."""
    site = Path(np.__file__).parents[1]
    folders = ("numpy.libs", "scipy.libs", "numpy/.dylibs", "scipy/.dylibs")
    for folder in folders:
        yield from sorted(str(p) for p in site.joinpath(folder).glob("*blas*"))


@cache
def find_blas() -> Blas:
    """The BLAS of this process.

    Raises:
        MissingDependencyError: there is none that can be called.
    """
    import numpy.linalg  # noqa: F401 (loads the BLAS that NumPy was built with)

    for path in dict.fromkeys([*_loaded(), *_shipped()]):
        for prefix, suffix in _SPELLINGS:
            try:
                return Blas(path, prefix, suffix)
            except (OSError, AttributeError):
                continue
    raise MissingDependencyError(
        f"blas: NumPy {np.__version__} on {sys.platform} has no OpenBLAS that can be called",
        hint="the wheels of NumPy for Linux and Windows ship one: pip install numpy",
    )


def _is_supported(context: PatternCheckContext) -> bool:
    """Floats of one dtype, matrices or batches of one size, nothing used from outside."""
    names = context.annotated_expr
    lhs, rhs, root = names["lhs"], names["rhs"], names["root"]
    if has_leaking_intermediate_variables(context):
        return False
    one, two = dims_of(lhs), dims_of(rhs)
    if dtype_of(root) not in _KINDS or {dtype_of(lhs), dtype_of(rhs)} != {dtype_of(root)}:
        return False
    if one is None or two is None or len(one) < 2 or len(two) < 2:
        return False
    return len(two) == 2 or (len(one) == len(two) and same_dims(one[:-2], two[:-2]))


@register_func("relax.ext.blas", override=True)
def blas(functions: Any, options: Mapping[str, Any], constants: Any) -> list[ExternalModule]:
    """What runs functions of products: `gemm` of the BLAS, and what is left by NumPy.

    Raises:
        MissingDependencyError: there is no BLAS.
    """
    found = find_blas()
    calls = {"relax.matmul": lambda attrs, a, b: found.matmul(a, b)}
    made = {f.attrs["global_symbol"]: by_calls(f, calls) for f in functions}
    return [ExternalModule.of("blas", made, f"{found.path}: {found.config}")]


register_patterns(matmul_patterns("blas", _is_supported))
