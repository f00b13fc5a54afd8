"""Accumulators of wgmma, kept in registers of the PTX that LLVM does not see.

An accumulator is up to 128 variables. Each wgmma, and each fence and wait around it, takes them all and gives them all
back, tied, and LLVM carries every one through every pass and every loop, though it can do nothing with them: of the
Hopper GEMM that is a third of its time. So the assembly that LLVM gets names registers of its own, which are declared
once, where the kernel starts, and whose values are copied where something else reads them. ptxas makes the same machine
code of both.

What a register holds is followed statement by statement, through all blocks. A variable stays as it is where that does
not show, where anything but assembly sets it, and where its value would be copied before it is there: a wgmma in flight
may still write it.
"""

from nvbackend.codegen.stages.accumulators.held import held

__all__ = ["held"]
