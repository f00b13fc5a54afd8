"""MMA atoms: names, and what they ask of the program that uses them."""

from __future__ import annotations

from dataclasses import replace

from nvbackend import InstructionDescriptor, bf16, f16, f32, ue4m3, ue8m0
from nvbackend.atoms import BlockScale, Residency, atom, atom_of, check_atom, layout_atom, majors_of, use_of
from nvbackend.intrinsics.mma.tcgen05 import mma
from nvbackend.layout import Layout
from nvbackend.tileiras import seed_reference_layout
from tests.rules.example import program


@program("atom.blas")
def the_letter_of_a_conjugate():
    majors_of("CN")  # breaks
    majors_of("TN")  # keeps


@program("atom.layout")
def values_in_another_order():
    one = atom("SM80_16x8x16_F32F16F16F32_TN")
    declared = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 128, 8)))  # breaks
    declared = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))  # keeps
    return check_atom(one, "sm_80", replace(use_of(one), layouts={"A": declared}))


@program("atom.metadata")
def a_sparse_a_without_the_places_of_its_elements():
    sparse = atom("SM80_SPARSE_16x8x32_F32F16F16F32_TN")
    return check_atom(sparse, "sm_80", replace(use_of(sparse), metadata=False))  # breaks
    return check_atom(sparse, "sm_80", replace(use_of(sparse), metadata=True))  # keeps


@program("atom.name")
def an_n_that_is_no_multiple_of_eight():
    atom("SM90_64x20x16_F32F16F16_SS<Major::K, Major::K>")  # breaks
    atom("SM90_64x24x16_F32F16F16_SS<Major::K, Major::K>")  # keeps


@program("atom.not-here")
def an_atom_of_several_instructions():
    atom("SM80_8x8x4_C64C64C64C64_TN")  # breaks
    atom("SM80_8x8x4_F64F64F64F64_TN")  # keeps


@program("atom.operand")
def a_picture_of_metadata_that_there_is_not():
    atom("SM80_16x8x16_F32F16F16F32_TN").picture("E")  # breaks
    atom("SM80_SPARSE_16x8x32_F32F16F16F32_TN").picture("E")  # keeps


@program("atom.residency")
def a_descriptor_for_registers():
    one = atom("SM90_64x64x16_F32F16F16_RS<Major::K, Major::K>")  # breaks
    one = atom("SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>")  # keeps
    use = replace(use_of(one), a_residency=Residency.SHARED_DESCRIPTOR)
    return check_atom(one, "sm_90a", use)


@program("atom.row")
def a_row_that_leaves_shape_and_types_open():
    row = mma("f16")
    atom_of(row)  # breaks
    atom_of(row, descriptor=InstructionDescriptor(kind="f16", m=128, n=64, a=f16, b=f16, d=f32))  # keeps


@program("atom.scale-factors")
def factors_of_other_blocks():
    scaled = atom("SM120_16x8x64_TN_VS<float_e2m1_t, float_e2m1_t, float, float_ue4m3_t, 16>")
    factors = BlockScale(ue8m0, 32)  # breaks
    factors = BlockScale(ue4m3, 16)  # keeps
    return check_atom(scaled, "sm_120a", replace(use_of(scaled), scale_b=factors))


@program("atom.seed-arm")
def a_sparse_fp8_of_sm_89():
    seed_reference_layout(32, 16, sparse=True, fp8=True)  # breaks
    seed_reference_layout(32, 16, fp8=True)  # keeps


@program("atom.shape")
def a_tile_that_atoms_do_not_fill():
    one = atom("SM80_16x8x16_F32F16F16F32_TN")
    tile = 64, 60, 32  # breaks
    tile = 64, 64, 32  # keeps
    return check_atom(one, "sm_80", replace(use_of(one), shape=tile))


@program("atom.target")
def wgmma_without_the_a():
    one = atom("SM90_64x64x16_F32F16F16_SS<Major::K, Major::K>")
    return check_atom(one, "sm_90", use_of(one))  # breaks
    return check_atom(one, "sm_90a", use_of(one))  # keeps


@program("atom.types")
def halves_of_the_other_kind():
    one = atom("SM80_16x8x16_F32F16F16F32_TN")
    return check_atom(one, "sm_80", replace(use_of(one), a=bf16))  # breaks
    return check_atom(one, "sm_80", replace(use_of(one), a=f16))  # keeps


@program("atom.layout-name")
def a_swizzle_of_256_bytes():
    layout_atom("GMMA::Layout_K_SW256_Atom<half_t>")  # breaks
    layout_atom("GMMA::Layout_K_SW128_Atom<half_t>")  # keeps
