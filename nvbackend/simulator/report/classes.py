"""Classes of instructions, for people: the order is that of a report."""

from __future__ import annotations

_BY_FIRST = {
    "tensor cores": ("mma",),
    "loads and stores": (
        *("ld", "ldu", "st", "ldmatrix", "stmatrix", "prefetch", "prefetchu", "discard", "applypriority"),
        *("tensormap", "createpolicy"),
    ),
    "asynchronous copies": ("cp", "clusterlaunchcontrol"),
    "atomics": ("atom", "red", "multimem"),
    "synchronisation": ("bar", "barrier", "mbarrier", "fence", "membar", "griddepcontrol", "nanosleep", "setmaxnreg"),
    "across lanes": ("shfl", "vote", "match", "redux", "activemask", "elect", "movmatrix"),
    "control flow": ("bra", "brx", "call", "ret", "exit", "enter", "trap", "brkpt"),
    "conversions": ("cvt",),
    "moves": ("mov", "prmt", "selp", "slct", "cvta", "isspacep", "mapa", "getctarank", "pmevent", "tex", "alloca"),
}
_CLASS_OF = {first: name for name, firsts in _BY_FIRST.items() for first in firsts}
_FLOATS = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32"})
CLASSES = (*_BY_FIRST, "floating point", "integer")


def class_of(opcode: str) -> str:
    """The class of an instruction by its opcode, such as `add.rn.f32`."""
    first, *rest = opcode.split(".")
    if first in ("wgmma", "tcgen05", "wmma"):
        return _class_of_tensor(rest[0] if rest else "")
    if first in ("st", "red") and "async" in rest:
        return "asynchronous copies"
    known = _CLASS_OF.get(first)
    return known or ("floating point" if _FLOATS & set(rest) else "integer")


def _class_of_tensor(action: str) -> str:
    """Of wgmma, wmma and tcgen05."""
    if action.startswith("mma"):
        return "tensor cores"
    if action in ("fence", "commit", "commit_group", "wait", "wait_group"):
        return "synchronisation"
    return "asynchronous copies" if action in ("cp", "shift") else "loads and stores"
