"""Whatever a user calls is a boundary: a diagnostic that leaves it shows the user's frames only."""

from __future__ import annotations

from types import FunctionType

import nvbackend
from nvbackend.diagnostics.boundary import MARK
from tests.support.members import member_of

CANNOT_FAIL = {
    *("Diagnostic", "DiagnosticError", "Rule", "Severity"),
    *(
        "Cache",
        "ElementType",
        "Im2col",
        "LaunchBounds",
        "Location",
        "MachineFunction",
        "MachineInstr",
        "Parameter",
        "Pointer",
        "Row",
        "Scalar",
        "Semantics",
        "Signature",
        "TensorMap",
        "TensorMapParameter",
        "Major",
        "WgmmaRequest",
    ),
}
"""Records, enumerations and a store of files; they check nothing that a user writes."""
MADE_BY_CALLS = {"WgmmaFragment", "Stage", "Value"}
"""What nobody makes but a call of `k`."""

PUBLIC = {name: getattr(nvbackend, name) for name in nvbackend.__all__}
FUNCTIONS = sorted(name for name, value in PUBLIC.items() if isinstance(value, FunctionType))
CLASSES = sorted(name for name, value in PUBLIC.items() if isinstance(value, type) and name not in CANNOT_FAIL)


def test_there_is_something_to_look_at() -> None:
    assert {"kernel", "compile_kernel"} <= set(FUNCTIONS)
    assert {"KernelBuilder", "Target"} <= set(CLASSES)
    assert set(PUBLIC) >= CANNOT_FAIL


def test_public_functions_are_boundaries() -> None:
    assert [name for name in FUNCTIONS if not hasattr(PUBLIC[name], MARK)] == [], "decorate it with user_facing"


def test_public_classes_are_boundaries() -> None:
    """Every method of the package that can be called on it, whichever class has it."""
    assert [name for cls in CLASSES for name in _open_methods(cls)] == [], "decorate the class with user_facing"


def _open_methods(name: str) -> list[str]:
    cls = PUBLIC[name]
    members = {key: member_of(cls, key) for key in dir(cls) if not key.startswith("_") or key == "__init__"}
    methods = {key: member for key, member in members.items() if isinstance(member, FunctionType)}
    ours = [key for key, method in methods.items() if method.__module__.startswith("nvbackend.")]
    if name in MADE_BY_CALLS:
        ours.remove("__init__")
    return [f"{name}.{key}" for key in ours if not hasattr(methods[key], MARK)]
