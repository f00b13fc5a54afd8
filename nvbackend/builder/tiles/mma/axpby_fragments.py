"""The linear epilogue of a fragment in registers: C loaded and D stored as widely as its place allows."""

from __future__ import annotations

from nvbackend.builder.ops.function import FunctionBuilder
from nvbackend.builder.tiles.axpby import Axpby
from nvbackend.builder.tiles.coordinates import Inside
from nvbackend.builder.tiles.fragment_copies import PartCut, load_fitting, store_fitting
from nvbackend.builder.tiles.register_tensor import RegisterTensor, make_registers
from nvbackend.builder.tiles.tensor import Tensor
from nvbackend.layout import Layout, size


def axpby_fitting(
    k: FunctionBuilder, form: Axpby, x: RegisterTensor, d: Tensor, c: Tensor, cut: PartCut, where: Inside | None
) -> None:
    """Write what `form` makes of `x` and of the thread's part of the tile C to that of the tile D."""
    shape = Layout(x.shape)
    old = None
    if form.reads_c:
        old = make_registers(k.core, c.element, shape, "c")
        load_fitting(k, c, old, cut, where)
    made = make_registers(k.core, d.element, shape, "d")
    for index in range(size(shape)):
        made[index] = form.of(x[index], None if old is None else old[index])
    store_fitting(k, made, d, cut, where)
