"""setmaxnreg rows: a warpgroup gives registers back or takes more. PTX ISA 9.7.19 (setmaxnreg)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import Effect, Intrinsic, Row, chosen, immediate
from nvbackend.intrinsics.row.semantics import WARP_SIZE, WARPGROUP_SIZE, Budget, Scope, Semantics

REGISTER_COUNTS = range(24, 257, 8)
"""Registers a thread that setmaxnreg takes."""
THREAD_REGISTERS = range(24, 256)
"""Registers that a thread can be limited to: ptxas raises a lower limit to 24, and no thread has more than 255."""
ACTIONS = ("inc", "dec")
REGISTER_FILE = 65536
"""32-bit registers of an SM (CUDA C++ Programming Guide, compute capabilities)."""


def launch_share(threads: int, ctas: int = 1) -> int:
    """Registers that a thread has at most when `ctas` CTAs of `threads` are launched on an SM.

    Each quarter of an SM has a quarter of the registers and runs whole warps, so the warps count in fours.
    """
    warps = -(-threads // WARP_SIZE) * ctas
    fours = -(-warps * WARP_SIZE // WARPGROUP_SIZE)
    return REGISTER_FILE // (fours * WARPGROUP_SIZE) // REGISTER_COUNTS.step * REGISTER_COUNTS.step


def launch_limit(threads: int, min_ctas: int | None, max_registers: int | None) -> int:
    """The registers that ptxas gives a thread at most.

    `max_registers` alone wins over what a CTA of `threads` can have; setmaxnreg does not raise it.
    """
    limits = [THREAD_REGISTERS[-1]]
    if max_registers is not None:
        limits.append(max_registers)
    if max_registers is None or min_ctas is not None:
        limits.append(launch_share(threads, min_ctas or 1))
    return min(limits)


@cache
def setmaxnreg(action: str) -> Row:
    """setmaxnreg: raise ("inc", blocks until the pool has enough) or lower ("dec") the registers of each thread.

    All warps of a warpgroup execute the same one. Raises NoSuchRow for another action.
    """
    ptx = f"setmaxnreg.{chosen('action', action, ACTIONS)}.sync.aligned.u32"
    return Row(
        family="register_budget",
        opcode=f"setmaxnreg.{action}",
        ptx=ptx,
        operands=(immediate("registers", tuple(REGISTER_COUNTS), meaning="registers a thread"),),
        lowering=Intrinsic(f"llvm.nvvm.{ptx}", ("registers",)),
        requires=Feature.SETMAXNREG,
        ptx_version=(8, 0),
        effects=Effect.CONVERGENT | Effect.ORDERS,
        semantics=Semantics(budget=Budget(action), together=Scope.WARPGROUP),
        section="9.7.19 (setmaxnreg)",
        summary="Takes registers from the CTA's pool, or gives them back.",
        axes={"action": action},
    )


def rows() -> Iterator[Row]:
    """Both rows."""
    return (setmaxnreg(action) for action in ACTIONS)
