"""A graph function as one native call, for each set of sizes that is met.

    plans = GraphPlans(function, kernels)
    plans.run(values, dims)          arguments that have been checked
    plans.run_known(plan, args)      arguments just like those of an earlier call: no check again
    plans.native(*args)              the same, checked and run natively (entry_call.py)

A call takes a BoundPlan (a plan with memory of its own and a native program) from a shelf and puts
it back, so Python threads that call at once do not meet, and calls one after the other allocate
nothing but their results. The plans of the sizes that were used last are kept.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlcnb.core.errors import ExecutionError, MLCError
from mlcnb.ir.memory import address_of, aligned_empty, array_at
from mlcnb.ir.span import told_of
from mlcnb.relax import expr as rx
from mlcnb.runtime.direct_call import SHORT, iterations
from mlcnb.runtime.entry_call import Given, Made, Other, entry, joined
from mlcnb.runtime.graph_plan import JUMP, OWN, KernelCall, Layout, Place, plan
from mlcnb.runtime.kernel_call import failure
from mlcnb.runtime.native.entry import ONE, TUPLE
from mlcnb.runtime.native_graph import CANCELLED, NativeProgram, own_calls
from mlcnb.runtime.pages import in_large_pages
from mlcnb.runtime.shapes import Dims, open_sizes
from mlcnb.runtime.tensor import flatten, fresh
from mlcnb.runtime.whole import is_straight, runs_whole

#: sets of sizes whose plans are kept, with their memory
KEPT = 16
#: bytes of memory that are held for sizes that were met once
HELD = 1 << 24

#: the shape and dtype of each argument
Kinds = tuple[tuple[tuple[int, ...], np.dtype], ...]


class Plan:
    """The plan for one set of sizes, and the programs for it that nobody uses at the moment."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.free: list[BoundPlan] = []
        #: the native way in for the arrays that were met first; None: there is none
        self.native: Callable[..., Any] | None = None
        self.has_native = False


class GraphPlans:
    """The native programs of one function, for each of the sets of sizes that were used last."""

    def __init__(
        self,
        function: rx.Function,
        kernels: Mapping[str, Any],
        functions: Mapping[Any, Any] | None = None,
    ) -> None:
        self.function = function
        self.kernels = kernels
        self.functions = functions
        native = all(k.is_native for k in kernels.values())
        self.straight = native and is_straight(function)
        #: whether it is one native call for sizes that `runs` is asked about
        self.whole = self.straight or (native and runs_whole(function, functions or {}))
        #: the native way in that served last
        self.native: Callable[..., Any] | None = None
        self._plans: OrderedDict[frozenset, Plan] = OrderedDict()
        self._known: dict[Kinds, Plan] = {}
        self._lock = threading.Lock()

    def runs(self, dims: Dims) -> bool:
        """Whether it is one native call for some sizes: of branches all have to be possible."""
        if not self.whole or self.straight:
            return self.whole
        try:
            self._plan(dims)
        except MLCError:
            return False
        return True

    def layout(self, dims: Dims) -> Layout:
        """The plan for some sizes, made when first asked for."""
        return self._plan(dims).layout

    def run(self, values: list[Any], dims: Dims, args: Sequence[Any] = ()) -> Any:
        """Run the function; several threads at once get a program each.

        args: what `values` were made of; where they are the same arrays, calls with arrays of their
        kind are `known` from now on.
        """
        found = self._plan(dims)
        kinds = kinds_of(args)
        if kinds and all(v is a for v, a in zip(values, args, strict=True)):
            self._known[kinds] = found
        return self._run(found, flatten(values))

    def lent(
        self, values: Sequence[Any], dims: Dims, once: bool = False
    ) -> tuple[Any, Callable[..., Any] | None]:
        """Run on values of the virtual machine: results may lie in them, or in a constant.

        Beside the results the native way in for these sizes, if there is one; once: none is made.
        """
        found = self._plan(dims)
        if once or kinds_of(values) is None:
            return self._run(found, flatten(values), lend=True, once=once), None
        return self.run_known(found, values, lend=True), found.native

    def known(self, args: Sequence[Any]) -> Plan | None:
        """The plan of an earlier call whose arguments were arrays just like these."""
        kinds = kinds_of(args)
        return self._known.get(kinds) if kinds else None

    def run_known(self, found: Plan, args: Sequence[Any], lend: bool = False) -> Any:
        """Run a plan that is `known` for these arguments; natively, where that can be."""
        if not found.has_native:
            found.has_native = True
            found.native = self._bound(found).entry(args, self._is_short(found.layout), lend)
        self.native = found.native
        result = NotImplemented if found.native is None else found.native(*args)
        return self._run(found, args, lend) if result is NotImplemented else result

    def _is_short(self, layout: Layout) -> bool:
        """Whether a call is over before anybody could press Ctrl-C."""
        bodies = {var.name_hint: func.body for var, func in (self.functions or {}).items()}
        turns = [c for i, c in enumerate(layout.calls) if c.kernel == JUMP and c.args[1] <= i]
        if turns:
            return False
        made = [call.kernel for call in layout.calls if call.kernel not in OWN]
        kernels = [bodies.get(name) for name in made]
        return sum(math.inf if b is None else iterations(b) for b in kernels) <= SHORT

    def timed(self, values: list[Any], dims: Dims) -> tuple[Any, list[tuple[KernelCall, int]]]:
        """Run once; the result, and each call with the nanoseconds it took."""
        bound = BoundPlan(self.layout(dims), self.kernels)
        bound.run(flatten(values))
        result, nanoseconds = bound.run_timed(flatten(values))
        return result, list(zip(bound.layout.calls, nanoseconds, strict=True))

    def _plan(self, dims: Dims) -> Plan:
        """The plan for some sizes; the one that was not used for longest goes."""
        key = frozenset(dims.items())
        with self._lock:
            if key not in self._plans:
                made = plan(self.function, self.kernels, dims, self.functions)
                self._plans[key] = Plan(made)
            self._plans.move_to_end(key)
            if len(self._plans) > KEPT:
                _, old = self._plans.popitem(last=False)
                self.native = None
                self._known = {k: p for k, p in self._known.items() if p is not old}
            return self._plans[key]

    def _run(
        self, found: Plan, inputs: Sequence[np.ndarray], lend: bool = False, once: bool = False
    ) -> Any:
        bound = self._bound(found)
        try:
            return bound.run(inputs, lend)
        finally:
            if not once or found.layout.arena_bytes <= HELD:
                found.free.append(bound)

    def _bound(self, found: Plan) -> BoundPlan:
        """A program for a plan that nobody uses."""
        try:
            return found.free.pop()  # one step of the interpreter: no lock
        except IndexError:
            return BoundPlan(found.layout, self.kernels)


def kinds_of(args: Sequence[Any]) -> Kinds | None:
    """Shape and dtype of each argument where all are plain arrays; else None."""
    for a in args:
        if type(a) is not np.ndarray or not a.flags.c_contiguous:
            return None
    return tuple([(a.shape, a.dtype) for a in args])


def _most_needed(layout: Layout, kernels: Mapping[str, Any]) -> str:
    """Which call of a layout needs most of the arena, with the nodes of the model that it is."""

    def needs(call: KernelCall) -> int:
        own = getattr(kernels.get(call.kernel), "signature", None)
        places = [x.nbytes for x in call.args if isinstance(x, Place) and x.storage.kind == "arena"]
        return max(0 if own is None else own.workspace, *places, 0)

    most = max(layout.calls, key=needs)
    return f"{needs(most):,} of them at {most.binding}{told_of(most.origin)}, by {most.kernel}"


class BoundPlan:
    """A layout with memory and a native program; used by one thread at a time."""

    def __init__(self, layout: Layout, kernels: Mapping[str, Any]) -> None:
        self.layout = layout
        self.kernels = kernels
        try:
            self.arena = aligned_empty((max(1, layout.arena_bytes),), np.dtype("uint8"))
        except ExecutionError as error:
            raise ExecutionError(
                f"{error.message}; {_most_needed(layout, kernels)}", hint=error.hint
            ) from None
        self.ignored = aligned_empty((1,), np.dtype("uint64"))
        addresses, slots = [], []
        self.patches: list[tuple[int, int, str, int]] = []
        own = dict(zip(OWN, own_calls(), strict=True))
        for number, call in enumerate(layout.calls):
            kernel = None if call.kernel in own else kernels[call.kernel]
            addresses.append(own[call.kernel] if kernel is None else kernel.address)
            slots.append(self._slots(kernel, call, number))
        in_large_pages([*layout.constants, self.arena])
        keep = [self.arena, self.ignored, layout.constants, list(kernels.values())]
        self.program = NativeProgram(addresses, slots, keep)
        arena: Any = self.program.arena
        self._table = memoryview(arena)
        self._inputs = self._slots_of("input")
        self._outputs = self._slots_of("output")
        self._made = [(p.shape, p.dtype) for p in _output_places(layout)]

    def _slots(self, kernel: Any, call: KernelCall, number: int) -> list[int]:
        slots = []
        for position, arg in enumerate(call.args):
            if isinstance(arg, Place):
                slots.append(self._address(arg, number, position))
            else:
                slots.append(int(arg))
        if kernel is None:
            return slots
        slots.extend(open_sizes(kernel.signature, call.dims))
        if kernel.signature.workspace:
            slots.append(self.arena.ctypes.data + call.workspace)
        if kernel.signature.result is not None:
            slots.append(self.ignored.ctypes.data)
        return slots

    def _address(self, place: Place, number: int, position: int) -> int:
        storage = place.storage
        if storage.kind == "arena":
            return self.arena.ctypes.data + storage.offset
        if storage.kind == "constant":
            return self.layout.constants[storage.number].ctypes.data
        self.patches.append((number, position, storage.kind, storage.number))
        return 0

    def _slots_of(self, kind: str) -> list[tuple[int, list[int]]]:
        """(number of an input or output, its slots in the program's table), which change with each
        call."""
        found: dict[int, list[int]] = {}
        for number, position, what, which in self.patches:
            if what == kind:
                found.setdefault(which, []).append(self.program.slot(number, position))
        return list(found.items())

    def _prepare(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        outputs = [aligned_empty(shape, dtype) for shape, dtype in self._made]
        table = self._table
        for arrays, slots_of in ((inputs, self._inputs), (outputs, self._outputs)):
            for which, slots in slots_of:
                address = address_of(arrays[which])
                for slot in slots:
                    table[slot] = address
        return outputs

    def run(self, inputs: Sequence[np.ndarray], lend: bool = False) -> Any:
        """Run on these inputs (tuples flattened); the result's arrays are new.

        lend: results that lie in an input or a constant are seen there, not copied.
        """
        outputs = self._prepare(inputs)
        self._check(self.program.run())
        result = self.layout.result
        return (self._lent if lend else self._result)(result, inputs, outputs)

    def entry(
        self, args: Sequence[np.ndarray], is_short: bool, lend: bool = False
    ) -> Callable[..., Any] | None:
        """`run` as a native function of arrays like these; from now on only that uses this plan.

        None where there can be none, or a result lies where the next call writes.
        """
        form = self.layout.result
        places = form if isinstance(form, tuple) else (form,)
        made = [m for m in map(self._made_at, places) if m is not None]
        others = [None if self._made_at(p) else self._other_at(p, lend) for p in places]
        if len(made) + sum(o is not None for o in others) < len(places):
            return None
        if len(made) != len(self._outputs) or len({m.slots for m in made}) < len(made):
            return None  # a result that is given twice would be one array
        slots = dict(self._inputs)
        given = [Given(a.dtype, a.shape, tuple(slots.get(i, ()))) for i, a in enumerate(args)]
        answer = TUPLE if places is form or not made else ONE
        native = entry(self.program, given, made, self._fail, form=answer, is_short=is_short)
        if native is None or len(made) == len(places):
            return native
        return joined(native, others, is_tuple=places is form)

    def _other_at(self, place: Any, lend: bool) -> Other | None:
        """A result that is an input or a constant, of the inputs; None for what lies elsewhere."""
        if not isinstance(place, Place) or place.storage.kind not in ("constant", "input"):
            return None
        give = self._lent if lend else self._result
        return lambda inputs: give(place, inputs, ())

    def _made_at(self, place: Any) -> Made | None:
        """The array that a call makes for a result; None for what lies elsewhere."""
        if not isinstance(place, Place) or place.storage.kind != "output":
            return None
        return Made(place.dtype, place.shape, tuple(dict(self._outputs)[place.storage.number]))

    def _fail(self, status: int) -> None:
        if status == CANCELLED:
            self.program.cancelled()
        self._check(status)

    def run_timed(self, inputs: Sequence[np.ndarray]) -> tuple[Any, list[int]]:
        """As `run`, with the nanoseconds of each call."""
        outputs = self._prepare(inputs)
        status, nanoseconds = self.program.run_timed()
        self._check(status)
        return self._result(self.layout.result, inputs, outputs), [int(n) for n in nanoseconds]

    def _check(self, status: int) -> None:
        if status:
            number = min(self.program.failed_at, len(self.layout.calls) - 1)
            call = self.layout.calls[number]
            error = failure(self.kernels[call.kernel], status, self._arguments(number))
            raise ExecutionError(f"at {call.binding}{told_of(call.origin)}: {error.message}")

    def _arguments(self, number: int) -> list[Any]:
        """What a call read and wrote, where its slots say that it lies: arrays without copies."""
        found: list[Any] = []
        for position, arg in enumerate(self.layout.calls[number].args):
            if isinstance(arg, Place):
                address = int(self.program.arena[self.program.slot(number, position)])
                found.append(array_at(address, arg.shape, arg.dtype))
            else:
                found.append(arg)
        return found

    def _lent(self, form: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> Any:
        """As `_result`, where nobody writes to what is given."""
        if isinstance(form, tuple):
            return tuple(self._lent(f, inputs, outputs) for f in form)
        if isinstance(form, Place) and form.storage.kind in ("constant", "input"):
            lists = {"constant": self.layout.constants, "input": inputs}
            seen = lists[form.storage.kind][form.storage.number].reshape(form.shape).view()
            seen.flags.writeable = seen.flags.writeable and form.storage.kind == "input"
            return seen
        return self._result(form, inputs, outputs)

    def _result(
        self, form: Any, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
    ) -> Any:
        if isinstance(form, tuple):
            return fresh(tuple(self._result(f, inputs, outputs) for f in form))
        if not isinstance(form, Place):
            return form
        storage = form.storage
        if storage.kind == "output":
            made = outputs[storage.number]
            return made if made.shape == form.shape else made.reshape(form.shape)
        if storage.kind == "constant":
            return self.layout.constants[storage.number].reshape(form.shape).copy()
        if storage.kind == "input":
            return inputs[storage.number].reshape(form.shape).copy()
        raw = self.arena[storage.offset : storage.offset + storage.size]
        return raw.view(form.dtype)[: math.prod(form.shape)].reshape(form.shape).copy()


def _output_places(layout: Layout) -> list[Place]:
    found: dict[int, Place] = {}
    for call in layout.calls:
        for arg in call.args:
            if isinstance(arg, Place) and arg.storage.kind == "output":
                found.setdefault(arg.storage.number, arg)
    return [found[i] for i in sorted(found)]
