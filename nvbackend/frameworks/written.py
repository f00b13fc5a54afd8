"""Which parameters of a compiled kernel it certainly writes to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nvbackend.codegen.compiled import CompiledKernel

_ADDRESS_OF = {"store": 1, "atomicrmw": 0, "cmpxchg": 0}
"""Which operand of an LLVM instruction is the address that it writes."""
_DERIVED = frozenset({"getelementptr", "bitcast", "addrspacecast", "freeze"})


def written_parameters(kernel: CompiledKernel) -> list[str]:
    """The pointer parameters that plain stores and atomics of the kernel write, in order.

    What assembly and intrinsics write, such as copies by TMA, is not among them.
    """
    import llvmlite.binding as llvm

    with llvm.create_context() as context, llvm.parse_assembly(kernel.optimized_ir, context) as module:
        function = module.get_function(kernel.name)
        instructions = [each for block in function.blocks for each in block.instructions]
        by_name = {each.name: each for each in instructions if each.name}
        written = {_base(each, by_name) for each in instructions if each.opcode in _ADDRESS_OF}
        names = [argument.name for argument in function.arguments]
    parameters = kernel.signature.parameters
    return [parameter.name for name, parameter in zip(names, parameters, strict=True) if name in written]


def _base(instruction: Any, by_name: Mapping[str, Any]) -> str:
    """The name of the value that the address of `instruction` is derived from."""
    name: str = list(instruction.operands)[_ADDRESS_OF[instruction.opcode]].name
    while name in by_name and by_name[name].opcode in _DERIVED:
        name = next(iter(by_name[name].operands)).name
    return name
