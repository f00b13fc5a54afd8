"""Scalar and packed instructions of PTX as pure functions on arrays of bits, one element a lane.

`find` looks one up by the parts of its opcode. Formulas are those of PTX ISA 9.7.1 to 9.7.9. It has no state.
"""

from nvbackend.simulator.scalar.find import find
from nvbackend.simulator.scalar.pure import Bits, Pure

__all__ = ["Bits", "Pure", "find"]
