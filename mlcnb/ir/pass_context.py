"""PassContext: the settings that passes run under, and the instruments that watch them.

with PassContext(opt_level=3, disabled_pass=["FuseOps"], instruments=[PassTimingInstrument()]):
    mod = pipeline(mod)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from mlcnb.ir.module import IRModule
from mlcnb.ir.pass_config import check_configs, config_value, list_configs
from mlcnb.ir.rules import Fired, find_rule, recording


class PassInfo(NamedTuple):
    """What an instrument is told of a pass.

    name: the pass's name; opt_level: the least `PassContext.opt_level` at which a Sequential runs
    it; required: names of passes it needs; traceable: as in TVM; pass_: the pass itself.
    """

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()
    traceable: bool = False
    pass_: Any = None


class PassContext:
    """What passes run under; `with PassContext(opt_level=3, instruments=[...]):` makes it current.

    Args:
        opt_level: passes of a Sequential with a higher level are left out.
        required_pass: names of passes that a Sequential runs whatever their level.
        disabled_pass: names of passes that a Sequential leaves out.
        instruments: objects with (some of) the methods of `mlcnb.ir.instrument.PassInstrument`.
        config: settings by key; see `list_configs`.
        disabled_rules: names of rewrite rules ("SimplifyOps.reshape") that no pass applies.

    Raises:
        PassError: a key or an option in `config`, or a rule, is not known.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Iterable[str] = (),
        disabled_pass: Iterable[str] = (),
        instruments: Iterable[Any] = (),
        config: Mapping[str, Any] | None = None,
        disabled_rules: Iterable[str] = (),
    ) -> None:
        self.opt_level = opt_level
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = tuple(instruments or ())
        self.config = dict(config or {})
        self.disabled_rules = tuple(find_rule(name).name for name in disabled_rules or ())
        self._notes: list[list[str]] = []
        self._tokens: list[Any] = []
        check_configs(self.config)

    @staticmethod
    def current() -> PassContext:
        """The innermost context entered, or one with the defaults."""
        found = _current.get()
        return PassContext() if found is None else found

    @staticmethod
    def list_configs() -> dict[str, Any]:
        """The settings that `config` may have, by key."""
        return list_configs()

    def __enter__(self) -> PassContext:
        self._tokens.append(_current.set(self))
        self._tell("enter_pass_ctx")
        return self

    def __exit__(self, *_error: Any) -> None:
        _current.reset(self._tokens.pop())
        self._tell("exit_pass_ctx")

    def get_config(self, key: str) -> Any:
        """A setting: as given, else its default; of a pass a table with all its options."""
        return config_value(self.config, key)

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a Sequential runs this pass under this context."""
        if info.name in self.disabled_pass:
            return False
        return info.name in self.required_pass or info.opt_level <= self.opt_level

    def note(self, text: str) -> None:
        """Say what the running pass did, or why it did nothing; kept by instruments."""
        if self._notes:
            self._notes[-1].append(text)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the pass that just ended said."""
        return self._last_notes

    @property
    def fired(self) -> tuple[Fired, ...]:
        """The uses of rewrite rules by the pass that just ended."""
        return self._last_fired

    _last_notes: tuple[str, ...] = ()
    _last_fired: tuple[Fired, ...] = ()

    @contextmanager
    def notes_of(self, _pass: Any) -> Iterator[None]:
        """Collect the notes and the uses of rules of one run of a pass."""
        self._notes.append([])
        with recording(self.disabled_rules) as recorder:
            try:
                yield
            finally:
                self._last_notes = tuple(self._notes.pop())
                self._last_fired = tuple(recorder.fired)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that make such a context again, without its instruments."""
        names = ("opt_level", "required_pass", "disabled_pass", "config", "disabled_rules")
        return {name: getattr(self, name) for name in names}

    def before(self, info: PassInfo, mod: IRModule) -> bool:
        """Tell the instruments that a pass begins; False if one of them forbids it."""
        for instrument in self.instruments:
            should_run = getattr(instrument, "should_run", None)
            if should_run is not None and not should_run(mod, info):
                self.skipped(info, mod)
                return False
        self._tell("run_before_pass", mod, info)
        return True

    def after(self, info: PassInfo, mod: IRModule) -> None:
        """Tell the instruments that a pass has ended."""
        self._tell("run_after_pass", mod, info)

    def skipped(self, info: PassInfo, mod: IRModule) -> None:
        """Tell the instruments that a pass was left out."""
        self._tell("skip_pass", mod, info)

    def _tell(self, event: str, *args: Any) -> None:
        for instrument in self.instruments:
            method = getattr(instrument, event, None)
            if method is not None:
                method(*args)

    def __repr__(self) -> str:
        parts = [f"opt_level={self.opt_level}"]
        for name in ("required_pass", "disabled_pass", "disabled_rules", "instruments"):
            if getattr(self, name):
                parts.append(f"{name}={list(getattr(self, name))!r}")
        if self.config:
            parts.append(f"config={self.config!r}")
        return f"PassContext({', '.join(parts)})"


_current: ContextVar[PassContext | None] = ContextVar("pass_context", default=None)
