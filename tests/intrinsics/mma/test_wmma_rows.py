"""The rows of wmma: the seed's table of intrinsics, fragments typed out, and the words of LLVM and ptxas on them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from nvbackend.intrinsics.fragments.wmma import contiguous, extent, fragment_bytes, register_count
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.row import Effect, Intrinsic, NoSuchRow, RegisterClass, Row
from nvbackend.intrinsics.row.types import BY_NAME, b1, bf16, f16, f32, f64, s4, s8, s32, tf32, u8
from nvbackend.isel.target.target import Target
from tests.support.row_verdicts import acceptance_faults, feature_faults, spelling_faults, version_faults
from tests.support.rows import compile_batch, compile_rows, kernel_text, lowest_target, newest_target

ROWS = tuple(wmma.rows())
CUBE = (16, 16, 16)
ROW_COL = ("row", "col")


def intrinsic(row: Row) -> str:
    assert isinstance(row.lowering, Intrinsic)
    return row.lowering.name


def kinds() -> list[Row]:
    """A row of each operation, shape, type and modifier: those that differ in layouts or addresses are alike."""
    found: dict[object, Row] = {}
    for place, row in enumerate(ROWS):
        axes = {name: value for name, value in row.axes.items() if not name.endswith("layout")}
        axes.pop("space", None)
        axes.pop("strided", None)
        same = tuple(axes.items())
        # Not always the first: the sample as a whole then has every layout and every kind of address.
        if same not in found or place % 7 == 0:
            found[same] = row
    return list(found.values())


SEED_TABLE = {
    "llvm.nvvm.wmma.m16n16k16.load.a.row.stride.f16": wmma.load("a", CUBE, f16, "row", "shared", strided=True),
    "llvm.nvvm.wmma.m16n16k16.load.b.col.stride.f16": wmma.load("b", CUBE, f16, "col", "shared", strided=True),
    "llvm.nvvm.wmma.m16n16k16.load.c.row.stride.f32": wmma.load("c", CUBE, f32, "row", "shared", strided=True),
    "llvm.nvvm.wmma.m16n16k16.store.d.row.stride.f32": wmma.store(CUBE, f32, "row", "shared", strided=True),
    "llvm.nvvm.wmma.m16n16k16.mma.row.col.f16.f16": wmma.mma(CUBE, f16, f16, f16, ROW_COL),
    "llvm.nvvm.wmma.m16n16k16.mma.row.col.f32.f32": wmma.mma(CUBE, f16, f32, f32, ROW_COL),
    "llvm.nvvm.wmma.m8n8k32.mma.row.col.s4": wmma.mma((8, 8, 32), s4, s32, s32, ROW_COL),
}
"""The seed's mapping table, but for the b1 form, which LLVM names by its bit operation."""


@pytest.mark.parametrize("name", SEED_TABLE)
def test_the_seeds_intrinsics(name: str) -> None:
    """A name is completed by the pointer's address space, which is how LLVM names an overload."""
    row = SEED_TABLE[name]
    assert intrinsic(row).removesuffix(".p3") == name


def test_b1_intrinsics_name_the_bit_operation() -> None:
    """The seed's `llvm.nvvm.wmma.m8n8k128.mma.row.col.b1` is no intrinsic: LLVM calls a function of that name."""
    seed = "llvm.nvvm.wmma.m8n8k128.mma.row.col.b1"
    row = wmma.mma((8, 8, 128), b1, s32, s32, ROW_COL, popc="xor")
    assert intrinsic(row) == "llvm.nvvm.wmma.m8n8k128.mma.xor.popc.row.col.b1"
    text = kernel_text(row)
    texts = (text, text.replace(intrinsic(row), seed))
    ours, theirs = compile_batch([(one, Target.parse("sm_80")) for one in texts])
    assert "wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32" in ours.ptx
    assert f".extern .func  (.param .align 4 .b8 func_retval0[8]) {seed}" in theirs.ptx


SPELLINGS = {
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16": SEED_TABLE["llvm.nvvm.wmma.m16n16k16.load.a.row.stride.f16"],
    "wmma.load.b.sync.aligned.col.m8n8k4.global.f64": wmma.load("b", (8, 8, 4), f64, "col", "global", strided=False),
    "wmma.load.c.sync.aligned.col.m32n8k16.s32": wmma.load("c", (32, 8, 16), s32, "col", None, strided=True),
    "wmma.store.d.sync.aligned.col.m16n16k8.f32": wmma.store((16, 16, 8), f32, "col", None, strided=False),
    "wmma.mma.sync.aligned.col.row.m8n32k16.f32.f16": wmma.mma((8, 32, 16), f16, f16, f32, ("col", "row")),
    "wmma.mma.sync.aligned.row.col.m16n16k16.f32.bf16.bf16.f32": wmma.mma(CUBE, bf16, f32, f32, ROW_COL),
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32": wmma.mma((16, 16, 8), tf32, f32, f32, ROW_COL),
    "wmma.mma.sync.aligned.row.col.m8n8k4.rz.f64.f64.f64.f64": wmma.mma(
        (8, 8, 4), f64, f64, f64, ROW_COL, rounding="rz"
    ),
    "wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32.satfinite": wmma.mma(
        CUBE, u8, s32, s32, ROW_COL, satfinite=True
    ),
    "wmma.mma.and.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32": wmma.mma(
        (8, 8, 128), b1, s32, s32, ROW_COL, popc="and"
    ),
}
"""Spellings typed from PTX ISA 9.7.14.4.3 to 9.7.14.4.5."""


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str) -> None:
    assert SPELLINGS[spelling].ptx == spelling


def test_llvm_prints_each_kinds_spelling_for_lowest_and_newest_target() -> None:
    assert spelling_faults(kinds()) == []


def test_ptxas_takes_each_kind_on_lowest_and_newest_target() -> None:
    assert acceptance_faults(kinds()) == []


def test_ptxas_refuses_each_kind_on_the_other_side_of_its_gate() -> None:
    """sm_70 and sm_72 are behind ptxas 13: what those gates hold back can only be seen from sm_75 on."""
    newer = [row for row in kinds() if row.axes.get("element", row.axes.get("a")) in (bf16, tf32, f64)]
    newer += [row for row in kinds() if row.axes.get("popc") == "and"]
    assert len(newer) > 12
    assert feature_faults(newer) == []
    assert version_faults(newer) == []


@pytest.mark.exhaustive
def test_llvm_prints_every_spelling_for_lowest_and_newest_target() -> None:
    assert spelling_faults(ROWS) == []


@pytest.mark.exhaustive
def test_ptxas_takes_every_row_on_lowest_and_newest_target() -> None:
    assert acceptance_faults(ROWS) == []


def test_rows_are_the_lattice() -> None:
    """Counted by hand: (A's shapes and types) x layouts x 3 address spaces x stride or none, and so on."""
    assert Counter(row.opcode for row in ROWS) == {
        "wmma.load.a": (3 * 4 * 2 + 2 + 2 + 2 + 1) * 6,
        "wmma.load.b": (3 * 4 * 2 + 2 + 2 + 2 + 1) * 6,
        "wmma.load.c": (3 * 3 + 1 + 1 + 2) * 2 * 6,
        "wmma.store.d": (3 * 3 + 1 + 1 + 2) * 2 * 6,
        "wmma.mma": 3 * 4 * 4 + 3 * 4 + 4 + 4 * 5 + 3 * 2 * 4 * 2 + 2 * 2 + 2,
    }
    assert len({(row.ptx, len(row.operands)) for row in ROWS}) == len(ROWS)


MULTIPLICANDS = {
    "16x16x16": {"f16": (8, 8), "bf16": (4, 4), "s8": (2, 2), "u8": (2, 2)},
    "8x32x16": {"f16": (8, 8), "bf16": (2, 8), "s8": (1, 4), "u8": (1, 4)},
    "32x8x16": {"f16": (8, 8), "bf16": (8, 2), "s8": (4, 1), "u8": (4, 1)},
    "16x16x8": {"tf32": (4, 4)},
    "8x8x4": {"f64": (1, 1)},
    "8x8x32": {"s4": (1, 1), "u4": (1, 1)},
    "8x8x128": {"b1": (1, 1)},
}
"""Registers a thread of A and of B, typed from PTX ISA 9.7.14.4.1."""
ACCUMULATORS = {
    **{shape: {"f16": 4, "f32": 8, "s32": 8} for shape in ("16x16x16", "8x32x16", "32x8x16")},
    "16x16x8": {"f32": 8},
    "8x8x4": {"f64": 2},
    **{shape: {"s32": 2} for shape in ("8x8x32", "8x8x128")},
}
"""Registers a thread of C and of D, likewise; of f64 ptxas wants two, where the ISA's table has one."""
REGISTERS = {
    **{
        f"{which} {shape} {element}": count
        for shape, types in MULTIPLICANDS.items()
        for element, counts in types.items()
        for which, count in zip("ab", counts, strict=True)
    },
    **{
        f"{which} {shape} {element}": count
        for shape, types in ACCUMULATORS.items()
        for element, count in types.items()
        for which in "cd"
    },
}


def test_register_counts_of_every_fragment() -> None:
    counted = {}
    for row in ROWS:
        shape = "x".join(map(str, row.axes["shape"]))
        for name in ("fragment", "a", "b", "c", "d"):
            which = row.axes["fragment"] if name == "fragment" and "fragment" in row.axes else name
            element = row.axes.get("element", row.axes.get(name))
            if any(one.name == name for one in row.operands):
                counted[f"{which} {shape} {element}"] = row.operand(name).count
    assert counted == REGISTERS


@pytest.mark.parametrize("name", REGISTERS)
def test_a_warp_holds_each_element_at_least_once(name: str) -> None:
    which, text, element = name.split()
    shape = tuple(map(int, text.split("x")))
    rows, columns = extent(which, shape)
    bits = 32 * 8 * fragment_bytes(which, shape, BY_NAME[element])
    copies, rest = divmod(bits, rows * columns * BY_NAME[element].bits)
    assert rest == 0
    assert copies == 1 or (element == "f16" and which in "ab" and copies in (2, 4))
    assert register_count(which, shape, BY_NAME[element]) == REGISTERS[name]


STRIDES = {
    # A by rows and by columns, B, accumulators: PTX ISA 9.7.14.4.2, default values for stride.
    (16, 16, 16): (16, 16, 16, 16, 16, 16),
    (8, 32, 16): (16, 8, 32, 16, 32, 8),
    (32, 8, 16): (16, 32, 8, 16, 8, 32),
    (8, 8, 32): (32, 8, 8, 32, 8, 8),
    (8, 8, 128): (128, 8, 8, 128, 8, 8),
    (16, 16, 8): (8, 16, 16, 8, 16, 16),
    (8, 8, 4): (4, 8, 8, 4, 8, 8),
}


@pytest.mark.parametrize("shape", STRIDES)
def test_default_strides(shape: tuple[int, int, int]) -> None:
    axes = [(which, layout) for which in "abd" for layout in ("row", "col")]
    assert tuple(contiguous(which, shape, layout) for which, layout in axes) == STRIDES[shape]


def test_effects() -> None:
    effects = {row.opcode: row.effects for row in ROWS}
    assert effects == {
        **dict.fromkeys(("wmma.load.a", "wmma.load.b", "wmma.load.c"), Effect.CONVERGENT | Effect.READS_MEMORY),
        "wmma.store.d": Effect.CONVERGENT | Effect.WRITES_MEMORY,
        "wmma.mma": Effect.CONVERGENT,
    }


def test_intrinsics_take_pairs_of_f16_as_vectors_and_others_as_they_are() -> None:
    mixed = kernel_text(SPELLINGS["wmma.mma.sync.aligned.col.row.m8n32k16.f32.f16"])
    (declaration,) = [line for line in mixed.splitlines() if line.startswith("declare")]
    assert declaration.count("<2 x half>") == 8 + 8 + 4
    assert declaration.count("float") == 8
    other = kernel_text(SPELLINGS["wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32"])
    (declaration,) = [line for line in other.splitlines() if line.startswith("declare")]
    assert declaration.count("i32") == 4 + 4
    assert declaration.count("float") == 8 + 8


def test_operands_stand_in_the_order_of_the_isa() -> None:
    """Every input is loaded from a slot of its own: D is new, and A, B and C are the slots in the row's order."""
    rows = [
        row for row in kinds() if row.opcode == "wmma.mma" and not row.axes["satfinite"] and row.axes["d"] is not f16
    ]
    for row, compiled in zip(rows, compile_rows([(row, newest_target(row)) for row in rows]), strict=True):
        slots = {
            register: int(offset or 0) // 8
            for register, offset in re.findall(r"ld\.global\S+ \t?(%\w+), \[%rd\d+(?:\+(\d+))?\]", compiled.ptx)
        }
        text = compiled.ptx[compiled.ptx.index(row.ptx) :]
        groups = [group.split(", ") for group in re.findall(r"\{(.*?)\}", text[: text.index(";")])]
        d, *inputs = ([slots.get(register) for register in group] for group in groups)
        assert d == [None] * row.operand("d").count
        assert [slot for group in inputs for slot in group] == list(range(sum(map(len, inputs))))
        assert list(map(len, inputs)) == [row.operand(name).count for name in "abc"]


def test_lowest_targets() -> None:
    """PTX ISA 9.7.14.4.5, Target ISA Notes and PTX ISA Notes."""
    lowest = {
        (str(row.axes["a"]), row.axes["popc"]): (lowest_target(row).name, row.ptx_version)
        for row in ROWS
        if row.opcode == "wmma.mma"
    }
    assert lowest == {
        ("f16", None): ("sm_70", (6, 3)),
        **{(element, None): ("sm_80", (7, 0)) for element in ("bf16", "tf32", "f64")},
        **{(element, None): ("sm_72", (6, 3)) for element in ("s8", "u8")},
        **{(element, None): ("sm_75", (6, 3)) for element in ("s4", "u4")},
        ("b1", "xor"): ("sm_75", (6, 3)),
        ("b1", "and"): ("sm_80", (7, 1)),
    }


@pytest.mark.parametrize(
    "ask",
    [
        lambda: wmma.load("d", CUBE, f32, "row", None, strided=True),
        lambda: wmma.load("a", CUBE, tf32, "row", None, strided=True),
        lambda: wmma.load("a", (8, 8, 128), b1, "col", None, strided=True),
        lambda: wmma.load("a", CUBE, f16, "row", "shared::cluster", strided=True),
        lambda: wmma.store(CUBE, s8, "row", None, strided=True),
        lambda: wmma.mma(CUBE, f64, f64, f64, ROW_COL),
        lambda: wmma.mma((8, 32, 8), tf32, f32, f32, ROW_COL),
        lambda: wmma.mma(CUBE, bf16, f16, f32, ROW_COL),
        lambda: wmma.mma(CUBE, f16, f32, f32, ROW_COL, satfinite=True),
        lambda: wmma.mma(CUBE, f16, f32, f32, ROW_COL, rounding="rn"),
        lambda: wmma.mma((8, 8, 128), b1, s32, s32, ROW_COL),
        lambda: wmma.mma((8, 8, 32), s4, s32, s32, ("row", "row")),
        lambda: wmma.mma(CUBE, s8, s32, s32, ROW_COL, popc="xor"),
    ],
)
def test_there_is_no_row_outside_of_the_lattice(ask) -> None:
    with pytest.raises(NoSuchRow):
        ask()


def test_registers_have_the_class_that_ptx_wants() -> None:
    row = wmma.mma(CUBE, f16, f16, f32, ROW_COL)
    assert [operand.register for operand in row.operands] == [
        RegisterClass.F32,
        RegisterClass.F16X2,
        RegisterClass.F16X2,
        RegisterClass.F16X2,
    ]
    assert wmma.mma((8, 8, 4), f64, f64, f64, ROW_COL).operand("a").register is RegisterClass.F64
    assert wmma.load("a", CUBE, s8, "row", "shared", strided=True).operand("address").register is RegisterClass.SHARED
