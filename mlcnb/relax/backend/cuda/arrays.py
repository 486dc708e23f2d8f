"""What libraries of a GPU have in common: CuPy, and arrays there and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlcnb.core.errors import DeviceError, MissingDependencyError
from mlcnb.ir.external import ExternalModule
from mlcnb.relax.backend.by_calls import by_calls


def cupy(library: str) -> Any:
    """CuPy, with a GPU to work on.

    Raises:
        MissingDependencyError: CuPy is not installed.
        DeviceError: there is no GPU.
    """
    try:
        import cupy as found
    except ImportError:
        raise MissingDependencyError(
            f"{library}: CuPy is not installed", hint="pip install 'mlcnb[cuda]', and an NVIDIA GPU"
        ) from None
    try:
        found.cuda.runtime.getDeviceCount()
    except found.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"{library}: there is no GPU to work on: {error}") from None
    return found


def made_by(
    library: str, functions: Any, calls: Callable[[Any], Mapping[str, Callable[..., Any]]]
) -> list[ExternalModule]:
    """What runs functions on the GPU: arrays go there, results come back.

    Args:
        library: its name.
        functions: graph functions with a global_symbol.
        calls: takes CuPy, gives functions of CuPy's arrays by the operators that they run.
    """
    found = cupy(library)
    own = calls(found)

    def on_gpu(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(attrs: Any, *arrays: Any) -> Any:
            return found.asnumpy(call(attrs, *(found.asarray(a) for a in arrays)))

        return run

    there = {op: on_gpu(call) for op, call in own.items()}
    made = {f.attrs["global_symbol"]: by_calls(f, there) for f in functions}
    return [ExternalModule.of(library, made, f"CuPy {found.__version__}")]
