"""What tests in TVM's style are written with: parameters, what a test needs, numbers compared.

    target = testing.parameter("llvm", "cuda")        a test that names `target` runs for each
    @testing.requires_cuda                            skipped where there is no such device
    testing.assert_allclose(found, expected, rtol=1e-5)

pytest is imported by the functions that need it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import MLCError


def parameter(
    *values: Any, ids: Sequence[str] | None = None, by_dict: Mapping[str, Any] | None = None
) -> Any:
    """A fixture that takes each of the values; `by_dict` gives names and values at once.

    Raises:
        MLCError: both values (or ids) and `by_dict` are given.
    """
    import pytest

    if by_dict is not None:
        if values or ids is not None:
            raise MLCError("parameter: give values or by_dict, not both")
        ids, values = list(by_dict), tuple(by_dict.values())

    @pytest.fixture(params=values, ids=ids)
    def as_fixture(*_cls: Any, request: Any) -> Any:
        return request.param

    return as_fixture


def parameters(*value_sets: Sequence[Any], ids: Sequence[str] | None = None) -> list[Any]:
    """Fixtures that change together: each value set holds one value for each of them."""
    return [parameter(*values, ids=ids) for values in zip(*value_sets, strict=True)]


def fixture(func: Any = None, *, cache_return_value: bool = False) -> Any:
    """A fixture made by a function; with `cache_return_value` it is made once for a module."""
    import pytest

    scope: Any = "module" if cache_return_value else "function"
    decorate = pytest.fixture(scope=scope)
    return decorate if func is None else decorate(func)


def main() -> None:
    """Run the tests of the file that calls this, with the arguments of the command line."""
    import pytest

    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    file = caller.f_globals["__file__"] if caller is not None else "."
    sys.exit(pytest.main([file, *sys.argv[1:]]))


def assert_allclose(
    actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """That two arrays (or tensors) have one shape and close values.

    Raises:
        AssertionError: they have not.
    """
    found, wanted = (_array(x) for x in (actual, desired))
    np.testing.assert_allclose(found.shape, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=atol, verbose=verbose)


def _array(x: Any) -> np.ndarray:
    return np.asanyarray(x.numpy() if hasattr(x, "numpy") else x)


def device_enabled(target: Any) -> bool:
    """Whether programs for this target can run here."""
    from mlcnb.runtime.device import device

    kind = str(getattr(target, "kind", target)).split()[0]
    return kind in ("llvm", "c") or bool(kind == "cuda" and device("cuda").exist)


def enabled_targets() -> list[tuple[str, Any]]:
    """The targets whose programs can run here, each with its device."""
    from mlcnb.runtime.device import device

    named = {"llvm": "cpu", "cuda": "cuda"}
    return [(t, device(d)) for t, d in named.items() if device_enabled(t)]


def parametrize_targets(*targets: Any) -> Any:
    """Run a test for each of the targets that can run here; the test names `target` and `dev`."""
    import pytest

    from mlcnb.runtime.device import device

    def decorate(func: Callable[..., Any], names: Sequence[Any] = targets) -> Any:
        kinds = [str(t) for t in names] or ["llvm", "cuda"]
        pairs = [
            pytest.param(
                t,
                device("cuda" if t.startswith("cuda") else "cpu"),
                marks=[] if device_enabled(t) else [pytest.mark.skip(f"no device of {t}")],
                id=t,
            )
            for t in kinds
        ]
        return pytest.mark.parametrize("target,dev", pairs)(func)

    if len(targets) == 1 and callable(targets[0]):
        return decorate(targets[0], ())
    return decorate


def _needs(what: str, is_there: Callable[[], bool]) -> Callable[..., Any]:
    """A decorator that skips a test where something is missing; called or not, as TVM's are."""

    def requires(*args: Any, **_options: Any) -> Any:
        import pytest

        mark = pytest.mark.skipif(not is_there(), reason=f"{what} is not to be had here")
        return mark(args[0]) if len(args) == 1 and callable(args[0]) else mark

    requires.__doc__ = f"Skip a test where {what} is not to be had."
    return requires


requires_llvm = _needs("LLVM", lambda: True)
requires_cuda = _needs("a GPU with CUDA", lambda: device_enabled("cuda"))
requires_gpu = _needs("a GPU", lambda: device_enabled("cuda"))
_absent = {
    name: _needs(words, lambda: False)
    for name, words in {
        "requires_cudagraph": "CUDA graphs",
        "requires_cuda_compute_version": "that version of CUDA",
        "requires_tensorcore": "tensor cores",
        "requires_rocm": "ROCm",
        "requires_matrixcore": "matrix cores",
        "requires_metal": "Metal",
        "requires_opencl": "OpenCL",
        "requires_vulkan": "Vulkan",
        "requires_hexagon": "Hexagon",
        "requires_rpc": "RPC",
        "requires_x86_vnni": "VNNI",
        "requires_x86_avx512": "AVX-512",
        "requires_x86_amx": "AMX",
        "requires_aarch64_sve": "SVE",
        "requires_aarch64_sme": "SME",
        "requires_arm_dot": "ARM's dot products",
    }.items()
}


def __getattr__(name: str) -> Any:
    found = _absent.get(name)
    if found is None:
        raise AttributeError(f"mlcnb.testing has no {name!r}")
    return found


def skip_if_32bit(reason: str = "") -> Any:
    """Skip a test on a machine of 32 bits."""
    import pytest

    return pytest.mark.skipif(sys.maxsize <= 2**32, reason=f"32 bits {reason}".strip())
