"""What fewer chips with tensor memory have."""

from __future__ import annotations

from nvbackend import InstructionDescriptor, Target, Tcgen05Request, e2m1, f32, ue8m0
from nvbackend.diagnostics import raise_all
from nvbackend.isel.select.tcgen05.shapes import shape_faults
from tests.rules.example import program


@program("tcgen05.k96")
def wide_k_on_another_chip():
    request = Tcgen05Request("mxf4", block_scale=True)
    descriptor = InstructionDescriptor(kind="mxf4", m=128, n=64, a=e2m1, b=e2m1, d=f32, scale=ue8m0, k96=True)
    raise_all(shape_faults(request, descriptor, Target.parse("sm_100a")))  # breaks
    raise_all(shape_faults(request, descriptor, Target.parse("sm_103a")))  # keeps
