"""What the seed on the MMA atoms says there is of each operand: how many elements, and a layout of them.

The tables of its Per-Atom Operand-Layout Contracts, number by number: elements a thread where the operand is in
registers, of the whole operand where it is in shared or tensor memory. The counts are mostly those of the hardware,
which follow them; the layouts are one compiler's own, and several have more elements than the count
(docs/divergences.md, mma.sync).
"""

from __future__ import annotations

from nvbackend.atoms.atom import Residency
from nvbackend.atoms.names import atom
from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.layout import Layout, parse, size

_ACCUMULATOR = "(2,2,2):(4,1,8)"
_BYTES_OF_B = "(2,2,2):(1,16,32)"


@dataclass(frozen=True, slots=True)
class SeedFootprint:
    """A line of a table: `elements` of `operand`, and the footprint where the seed writes one.

    `hardware_name` is the atom that the hardware has for the table. `operand` "A+B" is both together. Of metadata (E)
    and of scale factors in registers the elements are registers; of scale factors in tensor memory they are factors.
    """

    hardware_name: str
    operand: str
    elements: int
    footprint: str | None = None

    @property
    def layout(self) -> Layout | None:
        """The footprint, read; CuTe's dynamic numbers."""
        layout = None if self.footprint is None else parse(self.footprint)
        assert layout is None or isinstance(layout, Layout)
        return layout

    @property
    def hardware_elements(self) -> int:
        """How many the atom has; 1 register of metadata and of scale factors."""
        named = atom(self.hardware_name)
        in_registers = named.b_residency is Residency.REGISTERS
        if in_registers and self.operand in ("E", "SFA", "SFB"):
            return 1
        layouts = named.operand_layouts()
        share = named.block_scale.vec_size if named.block_scale is not None and self.operand in ("SFA", "SFB") else 1
        return sum(size(layouts[operand][0], 1) for operand in self.operand.split("+")) // share


def _table(name: str, *lines: tuple[str, int, str | None]) -> tuple[SeedFootprint, ...]:
    return tuple(SeedFootprint(name, *line) for line in lines)


def _wgmma(n: int) -> tuple[SeedFootprint, ...]:
    """SM90 WGMMA m64nNk16 f16: A and B by their descriptors, the accumulator a thread."""
    return _table(
        f"SM90_64x{n}x16_F32F16F16_SS<Major::K, Major::K>",
        ("A", 64 * 16, _OF_64_BY_16),
        ("B", 16 * n, f"(16,{n}):({n},1)"),
        ("C", n // 2, None),
    )


def _umma(n: int) -> tuple[SeedFootprint, ...]:
    """SM100 UMMA m64nNk16 f16, a single CTA."""
    return _table(
        f"SM100_MMA_F16BF16_SS<half_t, half_t, float, 64, {n}, Major::K, Major::K>",
        ("A", 64 * 16, _OF_64_BY_16),
        ("B", 16 * n, f"(16,{n}):({n},1)"),
        ("D", 64 * n, None),
    )


def _umma_block_scaled(m: int, n: int) -> tuple[SeedFootprint, ...]:
    """SM100 UMMA block-scaled (atom_K=64, vecSize=32)."""
    return _table(
        f"SM100_MMA_MXF4_SS<float_e2m1_t, float_e2m1_t, float, float_ue8m0_t, {m}, {n}, 32, Major::K, Major::K>",
        ("A", m * 64, None),
        ("B", 64 * n, None),
        ("D", m * n, None),
        ("SFA", m * 2, None),
        ("SFB", 2 * n, None),
    )


def _sm120(element: str, a: int, b: int) -> tuple[SeedFootprint, ...]:
    """SM120 block-scaled m16n8k32: elements of A and of B, and of each kind of factor a register."""
    name = f"SM120_16x8x32_TN_VS<{element}, {element}, float, float_ue8m0_t, 32>"
    return _table(name, ("A", a, None), ("B", b, None), ("C", 4, None), ("SFA", 1, None), ("SFB", 1, None))


_OF_64_BY_16 = "(64,16):(16,1)"
FOOTPRINTS: tuple[SeedFootprint, ...] = (
    *_table("SM70_8x8x4_F32F16F16F32_TN", ("A+B", 4, None)),
    *_table(
        "SM75_16x8x8_F32F16F16F32_TN",
        ("A", 4, "(2,2,2):(8,1,16)"),
        ("B", 2, "(2,2):(1,16)"),
        ("C", 4, _ACCUMULATOR),
    ),
    *_table(
        "SM80_16x8x16_F32F16F16F32_TN",
        ("A", 8, "(2,2,2,2):(1,16,8,128)"),
        ("B", 4, "(2,2,2):(1,8,16)"),
        ("C", 4, _ACCUMULATOR),
    ),
    *_table(
        "SM80_SPARSE_16x8x32_S32S8S8S32_TN",
        ("A", 8, "(2,2,2):(1,32,128)"),
        ("B", 8, _BYTES_OF_B),
        ("C", 4, _ACCUMULATOR),
        ("E", 1, "(1):(1)"),
    ),
    *_table(
        "SM89_16x8x32_F32E4M3E5M2F32_TN",
        ("A", 16, "(2,2,2,2):(1,32,16,256)"),
        ("B", 8, _BYTES_OF_B),
        ("C", 4, _ACCUMULATOR),
    ),
    *(line for n in (8, 128, 256) for line in _wgmma(n)),
    *(line for n in (64, 256) for line in _umma(n)),
    *_umma_block_scaled(128, 64),
    *_sm120("float_e2m1_t", 8, 4),
    *_sm120("float_e4m3_t", 16, 8),
)
"""m8n8k4 and then the tables in the order of the seed; of wgmma the N that it computes, of UMMA some."""
