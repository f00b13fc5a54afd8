"""What one compiler's documents define: its descriptor word and packed codes, reference layouts, shapes and operations.

Nothing of nvbackend is built on it: where it differs from the hardware, docs/divergences.md says how.
"""

from nvbackend.tileiras.block_scale import BlockScaledAtom, block_scaled_atom
from nvbackend.tileiras.descriptor import TileirasDescriptor
from nvbackend.tileiras.operand_b import SeedOperandB, seed_operand_b
from nvbackend.tileiras.operations import seed_operation
from nvbackend.tileiras.reference_layout import seed_reference_layout
from nvbackend.tileiras.shape_lattice import in_seed_lattice

__all__ = [
    "BlockScaledAtom",
    "SeedOperandB",
    "TileirasDescriptor",
    "block_scaled_atom",
    "in_seed_lattice",
    "seed_operand_b",
    "seed_operation",
    "seed_reference_layout",
]
