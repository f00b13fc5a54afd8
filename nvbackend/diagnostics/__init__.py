"""The only way to fail: declared rules, and the diagnostics made from them.

Lowest layer of the project: every other package may import it, and it imports none of them.
"""

from nvbackend.diagnostics.annotations import is_flag
from nvbackend.diagnostics.arguments import missing_name
from nvbackend.diagnostics.boundary import Interrupted, WrongKind, user_facing
from nvbackend.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticError,
    MissingAttribute,
    MissingEntry,
    Rule,
    Severity,
    gather,
    printed,
    raise_all,
    told_once,
    with_article,
)
from nvbackend.diagnostics.location import Location, caller_location
from nvbackend.diagnostics.records import record
from nvbackend.diagnostics.spelling import element_name, misspelt, one_of
from nvbackend.diagnostics.uncopied import Uncopied, refuse_copy
from nvbackend.diagnostics.users import functions_in, parameter_names, run_callback, user_line

__all__ = [
    "Diagnostic",
    "DiagnosticError",
    "Interrupted",
    "Location",
    "MissingAttribute",
    "MissingEntry",
    "Rule",
    "Severity",
    "Uncopied",
    "WrongKind",
    "caller_location",
    "element_name",
    "functions_in",
    "gather",
    "is_flag",
    "missing_name",
    "misspelt",
    "one_of",
    "parameter_names",
    "printed",
    "raise_all",
    "record",
    "refuse_copy",
    "run_callback",
    "told_once",
    "user_facing",
    "user_line",
    "with_article",
]
