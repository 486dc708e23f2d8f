"""TVM's names for errors: `tvm.TVMError` and its kin, as the typed errors that are raised here."""

from __future__ import annotations

from mlcnb.core.errors import MLCError, ParseError, WellFormedError

TVMError = MLCError
InternalError = MLCError
RPCError = MLCError
OpError = MLCError
DiagnosticError = ParseError

__all__ = [
    "DiagnosticError", "InternalError", "MLCError", "OpError", "ParseError", "RPCError", "TVMError",
    "WellFormedError",
]  # fmt: skip
