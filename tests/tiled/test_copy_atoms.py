"""Copy atoms: their layouts against the formulas of the PTX ISA and CuTe's texts, and what they refuse."""

from __future__ import annotations

import pytest

from nvbackend import DiagnosticError, bf16, f16, f32, f64, u8
from nvbackend.intrinsics.copy.matrix_move import LOADED, STORED
from nvbackend.intrinsics.maps.matrix import elements_a_lane, matrix_position, rows_of
from nvbackend.tiled import cp_async_copy, ldmatrix_copy, stmatrix_copy, universal_copy
from tests.support.said import said

SHAPES = {(make, narrow): shapes[int(narrow)] for make, shapes in ((ldmatrix_copy, LOADED), (stmatrix_copy, STORED))
          for narrow in (False, True)}  # fmt: skip
MATRICES = [
    (make, shape, count, transposed, narrow)
    for (make, narrow), shape in SHAPES.items()
    for count in shape.counts
    for transposed in ((True,) if narrow else (False, True))
]


def sides(atom):
    """The layout of the rows in memory, and that of the registers."""
    return (atom.src_bits, atom.dst_bits) if atom.row.opcode == "ldmatrix" else (atom.dst_bits, atom.src_bits)


@pytest.mark.parametrize(("make", "shape", "count", "transposed", "narrow"), MATRICES)
def test_registers_hold_what_the_formulas_say(make, shape, count, transposed, narrow):
    """Bit for bit: a lane's element is a row and a column of a matrix, whose rows are 128 bits one after another."""
    memory, registers = sides(make(u8 if narrow else f16, count, transposed=transposed, narrow=narrow))
    bits = 8 if narrow else 16
    for lane in range(32):
        for index in range(elements_a_lane(shape) * count):
            matrix, row, column = matrix_position(shape, transposed, lane, index)
            first = (matrix * rows_of(shape) + row) * 128 + column * bits
            assert [registers(lane, index * bits + bit) for bit in range(bits)] == list(range(first, first + bits))
        assert memory(lane, 0) == lane % (rows_of(shape) * count) * 128
        assert memory(lane, 127) - memory(lane, 0) == 127


PACKED = [
    (packed, shape, count)
    for packed, qualifier in ((4, "b8x16.b4x16_p64"), (6, "b8x16.b6x16_p32"))
    for shape in LOADED
    if shape.element == qualifier
    for count in shape.counts
]


@pytest.mark.parametrize(("packed", "shape", "count"), PACKED)
def test_unpacked_elements_are_where_the_formulas_say(packed, shape, count):
    """A byte for each element, of which a row in memory has 16 with padding."""
    transposed = shape.name == "m16n16"
    atom = ldmatrix_copy(u8, count, transposed=transposed, packed=packed)
    assert atom.row.ptx == (
        f"ldmatrix.sync.aligned.{shape.name}.x{count}{'.trans' if transposed else ''}.shared.{shape.element}"
    )
    for lane in range(32):
        for index in range(elements_a_lane(shape) * count):
            matrix, row, column = matrix_position(shape, transposed, lane, index)
            assert atom.layout_dst_tv(lane, index) == (matrix * rows_of(shape) + row) * 16 + column
        assert atom.layout_src_tv(lane, 0) == lane % (rows_of(shape) * count) * 16


def test_there_are_packed_ones_of_both_kinds():
    assert len(PACKED) == 2 * (3 + 2)


@pytest.mark.parametrize(("make", "shape", "count", "transposed", "narrow"), MATRICES)
def test_registers_hold_every_bit_once(make, shape, count, transposed, narrow):
    memory, registers = sides(make(u8 if narrow else f16, count, transposed=transposed, narrow=narrow))
    assert sorted(registers.offsets()) == sorted(set(memory.offsets())) == list(range(rows_of(shape) * count * 128))


CUTE = {
    "SM75_U32x1_LDSM_N": (ldmatrix_copy(f16, 1), "((_8,_4),_128):((_128,_0),_1)", "(_32,_32):(_32,_1)"),
    "SM75_U32x2_LDSM_N": (
        ldmatrix_copy(f16, 2),
        "((_16,_2),_128):((_128,_0),_1)",
        "(_32,(_32,_2)):(_32,(_1,_1024))",
    ),
    "SM75_U32x4_LDSM_N": (ldmatrix_copy(f16, 4), "(_32,_128):(_128,_1)", "(_32,(_32,_4)):(_32,(_1,_1024))"),
    "SM75_U16x2_LDSM_T": (
        ldmatrix_copy(f16, 1, transposed=True),
        "((_8,_4),_128):((_128,_0),_1)",
        "((_4,_8),(_16,_2)):((_256,_16),(_1,_128))",
    ),
    "SM75_U16x8_LDSM_T": (
        ldmatrix_copy(f16, 4, transposed=True),
        "(_32,_128):(_128,_1)",
        "((_4,_8),(_16,_2,_4)):((_256,_16),(_1,_128,_1024))",
    ),
    "SM100_SU4_DU8x16_x1_LDSM_N": (
        ldmatrix_copy(u8, 1, packed=4),
        "((_8,_4),_128):((_128,_0),_1)",
        "(_32,_32):(_32,_1)",
    ),
    "SM100_SU6_DU8x16_x4_LDSM_N": (
        ldmatrix_copy(u8, 4, packed=6),
        "(_32,_128):(_128,_1)",
        "(_32,(_32,_4)):(_32,(_1,_1024))",
    ),
    "SM90_U32x4_STSM_N": (stmatrix_copy(f16, 4), "(_32,(_32,_4)):(_32,(_1,_1024))", "(_32,_128):(_128,_1)"),
    "SM90_U16x4_STSM_T": (
        stmatrix_copy(f16, 2, transposed=True),
        "((_4,_8),(_16,_2,_2)):((_256,_16),(_1,_128,_1024))",
        "((_16,_2),_128):((_128,_0),_1)",
    ),
    "SM80_CP_ASYNC_CACHEALWAYS<uint64_t>": (cp_async_copy(f16, 64), "(_1,_64):(_0,_1)", "(_1,_64):(_0,_1)"),
    "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>": (
        cp_async_copy(f16, cache="cg"),
        "(_1,_128):(_0,_1)",
        "(_1,_128):(_0,_1)",
    ),
    "UniversalCopy<uint32_t>": (universal_copy(f32), "(_1,_32):(_0,_1)", "(_1,_32):(_0,_1)"),
}


@pytest.mark.parametrize("name", CUTE)
def test_the_traits_read_as_cutes(name):
    """SrcLayout and DstLayout as CUTLASS's copy_traits_sm75, _sm80, _sm90 and _sm100 print them."""
    atom, src, dst = CUTE[name]
    assert (str(atom), str(atom.src_bits), str(atom.dst_bits)) == (name, src, dst)


def test_four_matrices_unless_it_says_otherwise():
    """As in CUTLASS's collectives; of cp.async and of plain copies, the 16 bytes that are the most."""
    assert ldmatrix_copy(f16) == ldmatrix_copy(f16, 4)
    assert stmatrix_copy(f16) == stmatrix_copy(f16, 4)
    assert cp_async_copy(f16) == cp_async_copy(f16, 128)


def test_in_elements():
    """CuTe's ValLayoutSrc and ValLayoutDst of Copy_Atom<SM75_U16x8_LDSM_T, half_t>."""
    atom = ldmatrix_copy(f16, 4, transposed=True)
    assert str(atom.layout_src_tv) == "(_32,_8):(_8,_1)"
    assert str(atom.layout_dst_tv) == "((_4,_8),(_1,_2,_4)):((_16,_1),(_1,_8,_64))"
    assert (atom.threads, atom.values, atom.layout_ref_tv) == (32, 8, atom.layout_dst_tv)
    assert stmatrix_copy(f16, 4).layout_ref_tv == stmatrix_copy(f16, 4).layout_src_tv
    assert universal_copy(f16, 128).values == 8


ROWS = {
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16": ldmatrix_copy(f16, 4, transposed=True),
    "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8": ldmatrix_copy(u8, 2, narrow=True),
    "stmatrix.sync.aligned.m8n8.x2.shared.b16": stmatrix_copy(f16, 2),
    "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8": stmatrix_copy(u8, 4, narrow=True),
    "cp.async.cg.shared.global": cp_async_copy(f16, cache="cg"),
}


@pytest.mark.parametrize("spelling", ROWS)
def test_the_instruction(spelling):
    assert ROWS[spelling].row.ptx == spelling
    assert universal_copy(f16).row is None


REFUSED = {
    "three matrices": (lambda: ldmatrix_copy(f16, 3), "copy.width", "no ldmatrix moves 3 matrices"),
    "four narrow ones": (lambda: ldmatrix_copy(u8, 4, narrow=True), "copy.width", "use one of 1, 2 matrices of m16n16"),
    "two bytes": (lambda: cp_async_copy(f16, 16), "copy.width", "ca: 32, 64, 128 bits; cg: 128 bits"),
    "past L1": (lambda: cp_async_copy(f16, 64, cache="cg"), "copy.width", "no cp.async.cg moves 64 bits"),
    "48 bits": (lambda: universal_copy(f16, 48), "copy.width", "no load or store moves 48 bits"),
    "half a number": (lambda: universal_copy(f32, 16), "copy.element", "a thread has 16 bits that follow each other"),
    "words transposed": (lambda: ldmatrix_copy(f32, 4, transposed=True), "copy.element", "elements of at most 16 bits"),
    "five bits": (lambda: ldmatrix_copy(u8, packed=5), "copy.width", "moves elements of 5 bits"),
    "four unpacked ones": (lambda: ldmatrix_copy(u8, transposed=True, packed=4), "copy.width", "use one of 1, 2"),
    "halves unpacked": (lambda: ldmatrix_copy(f16, packed=6), "copy.element", "a byte in a register, not 16 bits"),
    "doubles": (lambda: ldmatrix_copy(f64), "copy.element", "an element 64"),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_refused(mistake):
    make, rule, words = REFUSED[mistake]
    with pytest.raises(DiagnosticError) as caught:
        make()
    (found,) = caught.value.diagnostics
    assert found.rule.id == rule
    assert words in said(found)


@pytest.mark.parametrize("make", [ldmatrix_copy, stmatrix_copy])
def test_four_plain_matrices_unless_it_says_otherwise(make):
    """As CUTLASS's U32x4 atoms; an atom is equal to another that is made alike, and shows what it is made of."""
    atom = make(f16)
    assert atom == make(f16, 4, transposed=False, narrow=False)
    assert hash(atom) == hash(make(f16, 4))
    assert "make_row" not in repr(atom)
    for other in (make(f16, 2), make(f16, transposed=True), make(bf16)):
        assert atom != other


def test_no_matrix_has_elements_of_64_bits():
    for make in (ldmatrix_copy, stmatrix_copy):
        with pytest.raises(DiagnosticError, match=r"copy\.(width|element)"):
            make(f64)
