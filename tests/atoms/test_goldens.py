"""The layouts of one atom of each form, as people read them."""

from __future__ import annotations

from nvbackend.atoms import MmaAtom, atom, known_atoms
from tests.support.golden import Golden

OF_TENSOR_MEMORY = [
    atom(name)
    for name in (
        "SM100_MMA_F16BF16_SS<half_t, half_t, float, 64, 64, Major::K, Major::MN>",
        "SM100_MMA_F16BF16_WS_TS<half_t, half_t, float, 128, 64, Major::K, Major::K>",
        "SM100_MMA_S8_2x1SM_SS_SPARSE<int8_t, int8_t, int32_t, 256, 64, Major::K, Major::K>",
        "SM100_MMA_TF32_SS_SPARSE<tfloat32_t, tfloat32_t, float, 128, 64, Major::K, Major::K>",
        "SM100_MMA_MXF8F6F4_2x1SM_SS<float_e4m3_t, float_e4m3_t, float, float_ue8m0_t, 128, 64, Major::K, Major::K>",
        "SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 128, 128, 16, Major::K, Major::K>",
        "SM103_MXF4_ULTRA_SS_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 128, 64, 16, Major::K, Major::K>",
    )
]


def told(one: MmaAtom) -> str:
    """An atom's name, its instruction and its layouts, a line each."""
    lines = [f"{one}", f"  {one.row.ptx}"]
    lines += [f"  {name}: {layout}" for name, (layout, _) in one.operand_layouts().items()]
    cells = {"E": one.tmem_e, "SFA": one.tmem_sfa, "SFB": one.tmem_sfb}
    lines += [f"  {name} in tensor memory: {layout}" for name, layout in cells.items() if layout is not None]
    return "\n".join(lines)


def test_layouts_of_every_form(golden: Golden) -> None:
    """Of wgmma with N = 64 alone: the other N have the same modes."""
    forms: dict[object, MmaAtom] = {}
    for one in known_atoms():
        if one.threads != 128 or one.shape[1] == 64:
            widths = one.shape, one.bits, one.c.bits, one.d.bits, one.threads
            forms.setdefault((widths, one.sparsity is None, one.block_scale, one.a_residency, one.a_major), one)
    golden.check("layouts.txt", "\n".join(map(told, (*forms.values(), *OF_TENSOR_MEMORY))))
