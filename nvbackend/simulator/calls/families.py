"""Which module compiles which instructions, by the first piece of the opcode, or by its first two where they differ."""

from __future__ import annotations

import importlib

from nvbackend.simulator.machine.compiling import Compile

_MODULES = {
    "moves": ("mov", "cvta", "isspacep", "mapa", "getctarank"),
    "tensor.matrices": ("ldmatrix", "stmatrix", "movmatrix"),
    "tensor.mma": ("mma",),
    "tensor.wmma": ("wmma",),
    "tensor.wgmma": ("wgmma",),
    "tensor.tcgen05": ("tcgen05",),
    "memory": ("ld", "ldu", "st", "prefetch", "prefetchu", "discard", "applypriority", "createpolicy"),
    "atomics": ("atom", "red"),
    "barrier": ("bar", "barrier"),
    "mbarrier": ("mbarrier",),
    "multimem": ("multimem",),
    "copies.async_store": ("st.async", "st.bulk", "red.async"),
    "copies.cp": ("cp",),
    "copies.launch_control": ("clusterlaunchcontrol",),
    "copies.tensor_maps": ("tensormap",),
    "warp": ("shfl", "vote", "match", "redux", "elect", "activemask", "bar.warp"),
    "registers": ("setmaxnreg",),
    "control": ("membar", "fence", "griddepcontrol", "pmevent", "nanosleep", "trap", "brkpt"),
}
"""The modules of this package and the opcodes that each compiles."""
_OF_OPCODE = {opcode: module for module, opcodes in _MODULES.items() for opcode in opcodes}


def find(parts: tuple[str, ...]) -> Compile | None:
    """How instructions of an opcode with these pieces are compiled; None where they do not touch the machine."""
    module = _OF_OPCODE.get(".".join(parts[:2])) or _OF_OPCODE.get(parts[0])
    if module is None:
        return None
    found: Compile = importlib.import_module(f"{__package__}.{module}").compile
    return found
