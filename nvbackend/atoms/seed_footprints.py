"""What the seed on the MMA atoms says a thread has of each operand: how many elements, and a layout of them.

The tables of its Per-Atom Operand-Layout Contracts, number by number. The counts are mostly those of the hardware,
which stand beside them; the layouts are one compiler's own, and several have more elements than the count
(docs/divergences.md, mma.sync).
"""

from __future__ import annotations

from dataclasses import dataclass

from nvbackend.atoms.names import atom
from nvbackend.layout import Layout, parse, size

_ACCUMULATOR = "(2,2,2):(4,1,8)"
_BYTES_OF_B = "(2,2,2):(1,16,32)"


@dataclass(frozen=True, slots=True)
class SeedFootprint:
    """A line of a table: `elements` of `operand` a thread, and the footprint where the seed writes one.

    `hardware_name` is the atom that the hardware has for the table. Of metadata (E) and scale factors the elements are
    registers.
    """

    hardware_name: str
    operand: str
    elements: int
    footprint: str | None = None

    @property
    def layout(self) -> Layout | None:
        """The footprint, read; CuTe's dynamic numbers."""
        found = None if self.footprint is None else parse(self.footprint)
        assert found is None or isinstance(found, Layout)
        return found

    @property
    def hardware_elements(self) -> int:
        """How many the atom has; 1 register of metadata and of scale factors."""
        if self.operand in ("E", "SFA", "SFB"):
            return 1
        layout, _ = atom(self.hardware_name).operand_layouts()[self.operand]
        return size(layout, 1)


def _table(name: str, *lines: tuple[str, int, str | None]) -> tuple[SeedFootprint, ...]:
    return tuple(SeedFootprint(name, *line) for line in lines)


_SM120 = "SM120_16x8x32_TN_VS<{0}, {0}, float, float_ue8m0_t, 32>"
FOOTPRINTS: tuple[SeedFootprint, ...] = (
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
    *(_table(f"SM90_64x{n}x16_F32F16F16_SS<Major::K, Major::K>", ("C", n // 2, None))[0] for n in (8, 128, 256)),
    *_table(
        _SM120.format("float_e2m1_t"),
        ("A", 8, None),
        ("B", 4, None),
        ("C", 4, None),
        ("SFA", 1, None),
        ("SFB", 1, None),
    ),
    *_table(_SM120.format("float_e4m3_t"), ("A", 16, None), ("B", 8, None), ("C", 4, None)),
)
"""In the order of the seed; of wgmma the N that it computes."""
