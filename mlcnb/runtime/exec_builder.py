"""ExecBuilder: a program for a register machine, instruction by instruction. TVM's name.

    ib = relax.ExecBuilder()
    with ib.function("main", num_inputs=2):
        ib.emit_call("test.vm.add", args=[ib.r(0), ib.r(1)], dst=ib.r(2))
        ib.emit_ret(ib.r(2))
    ex = ib.get()                                   @main:
    print(ex.as_text())                               call test.vm.add in: %0, %1 dst: %2
    relax.VirtualMachine(ex)["main"](a, b)            ret %2

Registers 0, 1, … hold the inputs. A call names a registered packed function, or a function of the
same program. It is what TVM's compiler makes of a graph; here it is for looking and for writing by
hand: compiled graphs are native functions (`runtime.native_graph`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlcnb.core import registry
from mlcnb.core.errors import ExecutionError, RuntimeInputError, WellFormedError
from mlcnb.core.text import kind_of, plural
from mlcnb.ir.dtype import DType
from mlcnb.runtime.shape_tuple import ShapeTuple
from mlcnb.runtime.tensor import Tensor, like_input_of_machine


@dataclass(frozen=True)
class Operand:
    """What an instruction reads: a register `%0`, a number `i3`, constant `c[0]`, a function
    `f[name]`, the machine itself `%vm`, or nothing `%void`.
    """

    kind: str
    value: Any = None

    def __str__(self) -> str:
        form = {"register": "%{}", "imm": "i{}", "constant": "c[{}]", "function": "f[{}]"}
        return form.get(self.kind, f"%{self.kind}").format(self.value)


VOID, MACHINE = Operand("void"), Operand("vm")


@dataclass(frozen=True)
class Instruction:
    """One step: `call`, `ret`, `goto` or `if`; an offset counts instructions from this one."""

    op: str
    name: str = ""
    args: tuple[Operand, ...] = ()
    dst: Operand = VOID
    offset: int = 0

    def __str__(self) -> str:
        read = ", ".join(map(str, self.args))
        match self.op:
            case "call":
                return f"call {self.name} in: {read} dst: {self.dst}"
            case "goto":
                return f"goto {self.offset}"
            case "if":
                return f"if {read} else {self.offset}"
            case _:
                return f"ret {read}"


@dataclass(frozen=True)
class RegisterFunction:
    """The instructions of one function."""

    name: str
    params: tuple[str, ...]
    body: tuple[Instruction, ...]

    def __str__(self) -> str:
        return "\n".join([f"@{self.name}:", *(f"  {step}" for step in self.body)])


class ExecBuilder:
    """Writes functions for a register machine (module docstring). Any shapes and dtypes.

    Raises:
        WellFormedError: an instruction outside of a function, two functions of one name; and by
            `get`: a register that is read before it is written, a jump out of its function, a
            function without `ret`.
    """

    def __init__(self) -> None:
        self._functions: dict[str, tuple[tuple[str, ...], list[Instruction]]] = {}
        self._open: str | None = None
        self._constants: list[Any] = []

    def r(self, index: int) -> Operand:
        """Register `index`."""
        return Operand("register", int(index))

    def imm(self, value: int) -> Operand:
        """A number."""
        return Operand("imm", int(value))

    def c(self, index: int) -> Operand:
        """Constant `index`."""
        return Operand("constant", int(index))

    def f(self, name: str) -> Operand:
        """A function of this program, as a value."""
        return Operand("function", name)

    def void_arg(self) -> Operand:
        """Nothing."""
        return VOID

    def vm_state(self) -> Operand:
        """The machine that runs the program."""
        return MACHINE

    def convert_constant(self, value: Any) -> Operand:
        """A constant of the program; an equal one is the same constant.

        Raises:
            WellFormedError: nothing in a program stands for it.
        """
        if isinstance(value, list | tuple):
            value = ShapeTuple(value)
        if not isinstance(value, str | int | float | ShapeTuple | DType | Tensor | np.ndarray):
            raise WellFormedError(
                f"ExecBuilder: {kind_of(value)} is no constant",
                hint="numbers, texts, shapes, dtypes and tensors are",
            )
        for index, known in enumerate(self._constants):
            if _same_constant(known, value):
                return self.c(index)
        self._constants.append(value)
        return self.c(len(self._constants) - 1)

    @contextmanager
    def function(
        self, func_name: str, num_inputs: int | None = 0, param_names: Sequence[str] | None = None
    ) -> Iterator[None]:
        """The function that the instructions inside belong to."""
        if func_name in self._functions or self._open is not None:
            why = "is there already" if func_name in self._functions else "stands in another"
            raise WellFormedError(
                f"ExecBuilder: function {func_name} {why}", hint="rename or close"
            )
        names = param_names or [f"in{i}" for i in range(num_inputs or 0)]
        self._functions[func_name] = (tuple(names), [])
        self._open = func_name
        try:
            yield
        finally:
            self._open = None

    def check_func_exists(self, func_name: str) -> bool:
        """Whether the program has the function."""
        return func_name in self._functions

    def emit_call(
        self, name: str, args: Sequence[Any] | None = None, dst: Operand | None = None
    ) -> None:
        """Call a packed function, or one of this program; shapes, dtypes, tensors and texts among
        `args` become constants, plain numbers too.
        """
        read = [a if isinstance(a, Operand) else self.convert_constant(a) for a in args or ()]
        self._emit(Instruction("call", name, tuple(read), dst or VOID))

    def emit_ret(self, result: Operand) -> None:
        """End with this result."""
        self._emit(Instruction("ret", args=(result,)))

    def emit_goto(self, pc_offset: int) -> None:
        """Go on `pc_offset` instructions from this one."""
        self._emit(Instruction("goto", offset=pc_offset))

    def emit_if(self, cond: Operand, false_offset: int) -> None:
        """Go on here where `cond` is not 0, else `false_offset` instructions from this one."""
        self._emit(Instruction("if", args=(cond,), offset=false_offset))

    def _emit(self, step: Instruction) -> None:
        if self._open is None:
            raise WellFormedError(
                "ExecBuilder: an instruction outside of a function",
                hint='with ib.function("main", num_inputs=1):',
            )
        self._functions[self._open][1].append(step)

    def get(self) -> RegisterProgram:
        """The program, checked; its registers are counted from 0 in the order of their use."""
        made = {
            name: RegisterFunction(name, params, _numbered(_checked(name, params, body), params))
            for name, (params, body) in self._functions.items()
        }
        return RegisterProgram(made, tuple(self._constants))


def _same_constant(known: Any, value: Any) -> bool:
    if type(known) is not type(value):
        return False
    if isinstance(value, Tensor | np.ndarray):
        a, b = np.asarray(known), np.asarray(value)
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return bool(known == value)


def _checked(
    name: str, params: tuple[str, ...], body: list[Instruction]
) -> tuple[Instruction, ...]:
    """The instructions; a program that cannot be run is refused."""
    written = set(range(len(params)))
    for at, step in enumerate(body):
        for arg in step.args:
            if arg.kind == "register" and arg.value not in written:
                raise WellFormedError(
                    f"ExecBuilder: {name}: {step}: {arg} is read before it is written",
                    hint=f"the inputs are the first {plural(len(params), 'register')}",
                )
        if step.dst.kind == "register":
            written.add(step.dst.value)
        if step.op in ("goto", "if") and not 0 <= at + step.offset < len(body):
            raise WellFormedError(
                f"ExecBuilder: {name}: {step}: there is no instruction {at + step.offset}",
                hint=f"{name} has {plural(len(body), 'instruction')}",
            )
    if not body or body[-1].op not in ("ret", "goto"):
        raise WellFormedError(f"ExecBuilder: {name} does not end", hint="ib.emit_ret(result)")
    return tuple(body)


def _numbered(body: tuple[Instruction, ...], params: tuple[str, ...]) -> tuple[Instruction, ...]:
    numbers = {i: i for i in range(len(params))}

    def number(arg: Operand) -> Operand:
        if arg.kind != "register":
            return arg
        return Operand("register", numbers.setdefault(arg.value, len(numbers)))

    return tuple(
        Instruction(s.op, s.name, tuple(map(number, s.args)), number(s.dst), s.offset) for s in body
    )


class RegisterProgram:
    """A program of a register machine: what `relax.VirtualMachine` runs, one step after the other.

    Args:
        functions: by name.
        constants: what `c[0]`, `c[1]`, … are.
    """

    def __init__(
        self, functions: Mapping[str, RegisterFunction], constants: tuple[Any, ...]
    ) -> None:
        self.functions = dict(functions)
        self.constants = constants

    def as_text(self) -> str:
        """Its instructions, one a line."""
        return "\n\n".join(map(str, self.functions.values())) + "\n"

    __repr__ = as_text

    def stats(self) -> str:
        """How much there is of what."""
        steps = sum(len(f.body) for f in self.functions.values())
        return (
            f"{plural(len(self.functions), 'function')}, {plural(steps, 'instruction')}, "
            f"{plural(len(self.constants), 'constant')}"
        )

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function, run by a machine of its own."""
        return lambda *args: self.run(name, args)

    def run(self, name: str, args: Sequence[Any], machine: Any = None) -> Any:
        """The result of a function; tensors are in the caller's kind of array, Tensors if it gave
        none.

        Raises:
            RuntimeInputError: there is no such function, or it takes another number of inputs.
            ExecutionError: a packed function is not registered.
        """
        return like_input_of_machine(self._run(name, args, machine), args)

    def _run(self, name: str, args: Sequence[Any], machine: Any) -> Any:
        function = self.functions.get(name)
        if function is None:
            known = ", ".join(self.functions)
            raise RuntimeInputError(f"there is no function {name!r}", hint=f"there are {known}")
        if len(args) != len(function.params):
            raise RuntimeInputError(
                f"{name} takes {plural(len(function.params), 'input')}, got {len(args)}"
            )
        registers: dict[int, Any] = dict(enumerate(args))

        def value(arg: Operand) -> Any:
            match arg.kind:
                case "register":
                    return registers[arg.value]
                case "constant":
                    return self.constants[arg.value]
                case "function":
                    return self._callable(arg.value, machine)
                case "vm":
                    return machine
                case _:
                    return arg.value

        at = 0
        while True:
            step = function.body[at]
            read = [value(arg) for arg in step.args]
            if step.op == "ret":
                return read[0]
            if step.op == "call":
                made = self._callable(step.name, machine)(*read)
                if step.dst.kind == "register":
                    registers[step.dst.value] = made
            jumps = step.op == "goto" or (step.op == "if" and not np.all(np.asarray(read[0])))
            at += step.offset if jumps else 1

    def _callable(self, name: str, machine: Any) -> Callable[..., Any]:
        if name in self.functions:
            return lambda *args: self._run(name, args, machine)
        found = registry.get_global_func(name, allow_missing=True)
        if found is None:
            raise ExecutionError(
                f"call of {name!r}: no function of that name is registered",
                hint=f"@mlcnb.register_func({name!r}) above a function of the arguments",
            )
        return found
