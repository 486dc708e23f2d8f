"""ExternModule: functions from elsewhere that a module calls in destination-passing style.

ext = nn.ExternModule({"my_add": lambda x, y: nn.Tensor.placeholder(x.shape, x.dtype)})
nn.add_extern(ext); z = ext["my_add"](x, y)      ->      z = R.call_dps_packed("my_add", (x, y))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mlcnb.core.errors import ArgumentError, UnsupportedError
from mlcnb.core.registry import get_global_func
from mlcnb.ir.external import ExternalModule
from mlcnb.relax.frontend.nn.op.calls import extern


class ExternModule:
    """Functions by name, each with what it returns.

    symbols: name -> function of the arguments that gives the result as `Tensor.placeholder`s.
    """

    def __init__(self, symbols: Mapping[str, Callable[..., Any]]) -> None:
        self.symbols = dict(symbols)

    def __getitem__(self, func_name: str) -> Callable[..., Any]:
        """The function, to be called with Tensors, numbers, strings and lists of them.

        Raises:
            ArgumentError: it is not among the symbols.
        """
        if func_name not in self.symbols:
            raise ArgumentError(
                f"the ExternModule has no function {func_name!r}",
                hint=f"it has {', '.join(self.symbols)}",
            )

        def function(*args: Any) -> Any:
            return extern(func_name, list(args), out=self.symbols[func_name](*args))

        return function

    def load(self) -> ExternalModule:
        """The functions themselves, for a module to keep: they have to be registered already.

        Raises:
            MLCError: one is not.
        """
        functions: dict[str, Any] = {name: get_global_func(name) for name in self.symbols}
        return ExternalModule.of("extern", functions)


class ObjectModule(ExternModule):
    """Functions in an object file: they can be exported, but not loaded.

    filepath: the object file.
    """

    def __init__(self, symbols: Mapping[str, Callable[..., Any]], filepath: str | Path) -> None:
        super().__init__(symbols)
        self.filepath = Path(filepath)

    def load(self) -> ExternalModule:
        """Refused, unless Python functions of those names are registered.

        Raises:
            UnsupportedError: an object file speaks TVM's C interface, which is not here.
        """
        return _load_registered(self, f"the object file {self.filepath.name}")


class SourceModule(ExternModule):
    """Functions in C++ or CUDA source: they can be exported, but not compiled.

    source_code: text, or the path of a file; source_format: "cpp" or "cu".
    """

    def __init__(
        self,
        symbols: Mapping[str, Callable[..., Any]],
        source_code: str | Path,
        source_format: str,
        compile_options: list[str] | None = None,
        compiler: str | None = None,
        output_format: str = "obj",
    ) -> None:
        super().__init__(symbols)
        if source_format not in ("cpp", "cu"):
            raise ArgumentError(f"Invalid source format: {source_format}", hint='"cpp" or "cu"')
        if output_format not in ("obj", "wasm"):
            raise ArgumentError(f"Invalid output format: {output_format}", hint='"obj" or "wasm"')
        is_path = isinstance(source_code, Path)
        self.source_code = Path(source_code).read_text() if is_path else str(source_code)
        self.source_format = source_format
        self.compile_options = list(compile_options or ())
        self.compiler = compiler
        self.output_format = output_format

    def load(self) -> ExternalModule:
        """Refused, unless Python functions of those names are registered.

        Raises:
            UnsupportedError: such source is written against TVM's C++ headers, which are not here.
        """
        return _load_registered(self, f"{self.source_format} source")


def _load_registered(mod: ExternModule, what: str) -> ExternalModule:
    missing = [n for n in mod.symbols if get_global_func(n, allow_missing=True) is None]
    if missing:
        raise UnsupportedError(
            f"{', '.join(missing)}: {what} is written for TVM's C++ interface and is not loaded",
            hint=f'register a Python function in its place: mlcnb.register_func("{missing[0]}", f)',
        )
    return ExternModule.load(mod)
