"""SplitCallTIRByPattern: loop functions that begin as a pattern leave that part to a library.

def fused(X, W, B, Out):                      lv = R.call_dps_packed("fused_library", (x, w), …)
    Y = X @ W              a pattern    ->    gv = R.call_tir(cls.fused_epilogue, (lv, b), …)
    Out = relu(Y + B)

A pattern is a loop function over open sizes. It fits the first statements of a function if these
are the pattern's, sizes put in and buffers renamed. Each fit is told to `fcodegen`, which says what
it takes and gives the source of the library's function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcnb.core.errors import PassError
from mlcnb.core.node import FrozenDict, replace, rewrite, walk
from mlcnb.ir.expr import GlobalVar, PrimExpr, Var
from mlcnb.ir.structural import structural_equal
from mlcnb.relax.analysis.calls import callee_of
from mlcnb.relax.expr import Call, ExternFunc, Tuple, call_dps_packed, tensor_info
from mlcnb.relax.expr import Var as GraphVar
from mlcnb.relax.struct_info import TupleStructInfo
from mlcnb.relax.transform.written_out import Reader, TablePass
from mlcnb.tir.buffer import Buffer
from mlcnb.tir.function import PrimFunc
from mlcnb.tir.renew import renew_defs
from mlcnb.tir.stmt import BlockRealize, SeqStmt, Stmt, seq


@dataclass(frozen=True)
class MatchResult:
    """A pattern that fits a function's statements.

    pattern: the pattern; symbol_values: what its sizes are; matched_buffers: the function's buffers
    for those of the pattern's parameters, results last.

    `symbol_values` gives the shape of each buffer of the pattern in numbers or sizes of the
    function. Fields only: nothing is checked, nothing raised.
    """

    pattern: PrimFunc
    symbol_values: Mapping[Var, PrimExpr]
    matched_buffers: tuple[Buffer, ...]


#: matches, in the order of the statements -> () for none of it, or (source, how many of the matches
#: it takes, the buffers that the library's function is called with, the result last)
Codegen = Callable[[Sequence[MatchResult]], Sequence[Any]]


class SplitCallTIRByPattern(TablePass, says="calls begin in a library", quiet=True):
    """Call a library for the first part of loop functions, and the loops for the rest.

    Shapes and dtypes fit where one choice of the pattern's sizes makes them equal.

    Raises:
        PassError: what `fcodegen` takes is no function of its own: the loops that are left need
            more of it than its result, or go on with a parameter that it writes.
    """

    patterns: Sequence[PrimFunc]
    fcodegen: Codegen


@dataclass(frozen=True)
class _Split:
    """A function in two: the library's part by name and source, and the loops that are left.

    inputs: parameters of the function that the library reads; result: the buffer that it writes;
    rest: the loops, or None, and the parameters that they take after the library's result.
    """

    name: str
    source: str
    inputs: tuple[int, ...]
    result: Buffer
    rest: GlobalVar | None
    places: tuple[int, ...]


class _Splitter(Reader, of=SplitCallTIRByPattern):
    def __init__(self, functions: Any, options: Any) -> None:
        super().__init__(functions, options)
        self.splits: dict[GlobalVar, _Split | None] = {}

    def visit_call(self, call: Call, var: GraphVar) -> Any:
        """The library's call, and that of the loops that are left."""
        func = callee_of(call, self.functions)
        if func is None or not _is_plain(call, func):
            return None
        key: Any = call.args[0]
        if key not in self.splits:
            self.splits[key] = self.split(key.name_hint, func)
        found = self.splits[key]
        if found is None:
            return None
        self.found += 1
        inputs: Any = call.args[1].fields  # type: ignore[attr-defined]
        info = call.sinfo_args[0]
        if found.rest is not None:
            info = tensor_info(found.result.shape, found.result.dtype)
        attrs = FrozenDict({"c_source": found.source, "c_source_fmt": "c"})
        library = ExternFunc(found.name, attrs=attrs)
        first = call_dps_packed(library, tuple(inputs[i] for i in found.inputs), info)
        if found.rest is None:
            return first
        made = self.emit(first)
        args: tuple[Any, ...] = (found.rest, Tuple((made, *(inputs[i] for i in found.places))))
        return Call(call.op, args, call.attrs, call.sinfo_args, None, call.span)

    def split(self, name: str, func: PrimFunc) -> _Split | None:
        """How a function is split; None where no pattern fits, or nobody takes it."""
        body = _statements(func)
        matches: list[MatchResult] = []
        used: list[int] = []
        while len(matches) < len(body):
            found = self.fitting(body, sum(used))
            if found is None:
                break
            matches.append(found[0])
            used.append(found[1])
        taken = self.options.fcodegen(matches) if matches else ()
        if not taken:
            return None
        source, count, buffers = taken
        return self.made(name, func, sum(used[: int(count)]), str(source), tuple(buffers))

    def fitting(self, body: Sequence[Stmt], start: int) -> tuple[MatchResult, int] | None:
        """The first pattern that fits the statements from `start` on, and how many it has."""
        for pattern in self.options.patterns:
            wanted = _statements(pattern)
            part = body[start : start + len(wanted)]
            found = _match(pattern, wanted, part) if len(part) == len(wanted) else None
            if found is not None:
                return found, len(wanted)
        return None

    def made(
        self, name: str, func: PrimFunc, count: int, source: str, buffers: tuple[Buffer, ...]
    ) -> _Split:
        """The two parts: the library's takes the first `count` statements.

        Raises:
            PassError: the loops that are left need more of the library than its result.
        """
        *given, result = buffers
        rest = _statements(func)[count:]
        inputs = tuple(_place(func, b) for b in given)
        symbol = f"{name}_library"
        if not rest:
            return _Split(symbol, source, inputs, result, None, ())
        if any(result is b for b in func.buffers):
            raise PassError(
                f"SplitCallTIRByPattern: {name} goes on with {result.name}, a parameter that the "
                "library writes",
                where=func,
            )
        needed = _buffers(rest)
        places = tuple(
            i for i, p in enumerate(func.params[:-1]) if func.buffer_map.get(p) in needed
        )
        kept = [b for b in _root(func).block.alloc_buffers if b in needed and b is not result]
        inside = set(_buffers(_statements(func)[:count])) - set(given) - {result}
        if inside & set(needed) - {func.buffer_map.get(p) for p in func.params}:
            raise PassError(
                f"SplitCallTIRByPattern: {name} needs more of the library than {result.name}",
                where=func,
            )
        first = Var(f"var_{result.name}", func.params[0].dtype)
        params = (first, *(func.params[i] for i in places))
        known = {p: func.buffer_map[p] for p in (*params[1:], func.params[-1])}
        root = _root(func)
        block = replace(root.block, body=seq(*rest), alloc_buffers=tuple(kept), reads=(), writes=())
        epilogue = PrimFunc(
            (*params, func.params[-1]),
            replace(root, block=block),
            buffer_map=FrozenDict({params[0]: result, **known}),
            attrs=func.without_attr("global_symbol").attrs,
        )
        key = self.table.add(renew_defs(epilogue), f"{name}_epilogue")
        return _Split(symbol, source, inputs, result, key, places)


def _is_plain(call: Call, func: PrimFunc) -> bool:
    """True for a call of one result and no scalars."""
    one = not isinstance(call.sinfo_args[0], TupleStructInfo)
    return one and len(call.args) == 2 and len(func.buffers) == len(func.params)


def _root(func: PrimFunc) -> Any:
    if not isinstance(func.body, BlockRealize):
        raise PassError("SplitCallTIRByPattern: a body that is no root block", where=func)
    return func.body


def _statements(func: PrimFunc) -> tuple[Stmt, ...]:
    """The statements of the root block."""
    body = _root(func).block.body
    return tuple(body.seq) if isinstance(body, SeqStmt) else (body,)


def _buffers(statements: Sequence[Stmt]) -> list[Buffer]:
    """The buffers of statements, in the order in which they come."""
    found = (n for s in statements for n in walk(s) if isinstance(n, Buffer))
    return list(dict.fromkeys(found))


def _place(func: PrimFunc, buffer: Buffer) -> int:
    for place, param in enumerate(func.params):
        if func.buffer_map.get(param) is buffer:
            return place
    raise PassError(
        f"SplitCallTIRByPattern: {buffer.name} is handed to the library, but is no parameter",
        where=func,
    )


def _match(pattern: PrimFunc, wanted: Sequence[Stmt], given: Sequence[Stmt]) -> MatchResult | None:
    """The match of a pattern's statements with those of a function."""
    ours, theirs = _buffers(wanted), _buffers(given)
    if [len(b.shape) for b in ours] != [len(b.shape) for b in theirs]:
        return None
    buffers: dict[Any, Any] = dict(zip(ours, theirs, strict=True))
    sizes: dict[Any, Any] = {}
    for a, b in buffers.items():
        for dim, extent in zip(a.shape, b.shape, strict=True):
            if isinstance(dim, Var):
                sizes.setdefault(dim, extent)
        if a.dtype != b.dtype or not all(map(structural_equal, _put(a.shape, sizes), b.shape)):
            return None

    def enter(n: Any) -> Any:
        return buffers.get(n) if isinstance(n, Buffer) else None

    def size(n: Any) -> Any:
        return sizes.get(n) if isinstance(n, Var) else None

    for one, two in zip(wanted, given, strict=True):
        if not structural_equal(rewrite(one, size, enter=enter), two):
            return None
    params = (pattern.buffer_map[p] for p in pattern.params if p in pattern.buffer_map)
    matched = tuple(buffers[b] for b in params if b in buffers)
    return MatchResult(pattern, sizes, matched)


def _put(dims: Sequence[PrimExpr], sizes: Mapping[Any, Any]) -> list[Any]:
    return [rewrite(d, lambda n: sizes.get(n) if isinstance(n, Var) else None) for d in dims]
