"""WGMMA rows: the warpgroup's asynchronous D = A * B (+ D) of sm_90a, and its fence, commit and wait. PTX ISA 9.7.15.

The lattice is what ptxas 13.5 accepts. Operand names: `d` the accumulator, `a` its registers or `a_desc` the shared
memory descriptor, `b_desc`, `metadata` of a sparse A, `scale_d` (0: overwrite D, otherwise add to it), `scale_out` the
scale-D of the next instruction on this accumulator, and the immediates `selector`, `scale_a`, `scale_b`, `trans_a`,
`trans_b` where the multiplicands have them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cache

from nvbackend.diagnostics.classes.dataclass import dataclass
from nvbackend.intrinsics.fragments.warpgroup import A_REGISTERS
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.row.row import (
    Asm,
    Effect,
    Intrinsic,
    PtxVersion,
    RegisterClass,
    Row,
    RowOperand,
    chosen,
    immediate,
    operand,
    output,
    spelled,
)
from nvbackend.intrinsics.row.semantics import (
    WARPGROUP_SIZE,
    Completion,
    FenceOf,
    FenceSemantics,
    Proxy,
    Scope,
    Semantics,
    reads,
)
from nvbackend.intrinsics.row.types import ElementType, b1, bf16, e4m3, e5m2, f16, f32, s8, s32, tf32, u8

MMA_ASYNC = "wgmma.mma_async"
M = 64
"""Rows of every instruction: 16 for each of the warpgroup's four warps."""
N_STEP = 8
N_VALUES = range(8, 257, N_STEP)
"""N of floating-point multiplicands."""
INTEGER_N_VALUES = (8, 16, 24, *range(32, 257, 16))
"""N of s8, u8 and b1 multiplicands."""
PENDING_GROUPS = range(8)
"""Groups that a wait can leave in flight: ptxas takes larger numbers, and encodes 7."""
SCALES = (1, -1)
"""Legal imm-scale-a and imm-scale-b: -1 negates the operand."""
TRANSPOSES = (0, 1)
"""Legal imm-trans-a and imm-trans-b: 0 reads the operand K-major, 1 MN-major."""
POPC_OPERATION = "and"
"""The bit operation of b1 before the population count."""

K_BITS = 256
"""Bits of one row of a dense A."""
_PTX: PtxVersion = (8, 0)
_SPARSE_PTX: PtxVersion = (8, 2)
_MIXED_SIGN_PTX: PtxVersion = (8, 4)


@dataclass(frozen=True, slots=True)
class Multiplicands:
    """A set of types that A and B are taken from, in any mix, and what the instruction offers for them.

    `selectors` are the legal sparsity selectors, empty where A cannot be sparse.
    """

    types: tuple[ElementType, ...]
    d: tuple[ElementType, ...]
    n: Collection[int] = N_VALUES
    negates: bool = False
    transposes: bool = False
    saturates: bool = False
    selectors: tuple[int, ...] = ()
    operation: str | None = None

    def k(self, sparse: bool = False) -> int:
        """The K of one instruction, in elements; a sparse A holds half of the columns."""
        return K_BITS // self.types[0].bits * (2 if sparse else 1)

    @property
    def pairs(self) -> Iterator[tuple[ElementType, ElementType]]:
        """Every (A, B)."""
        return ((a, b) for a in self.types for b in self.types)


MULTIPLICANDS: tuple[Multiplicands, ...] = (
    Multiplicands((f16,), (f16, f32), negates=True, transposes=True, selectors=(0, 1)),
    Multiplicands((bf16,), (f32,), negates=True, transposes=True, selectors=(0, 1)),
    Multiplicands((tf32,), (f32,), negates=True, selectors=(0, 1)),
    Multiplicands((e4m3, e5m2), (f16, f32), negates=True, selectors=(0,)),
    Multiplicands((s8, u8), (s32,), INTEGER_N_VALUES, saturates=True, selectors=(0,)),
    Multiplicands((b1,), (s32,), INTEGER_N_VALUES, operation=f"{POPC_OPERATION}.popc"),
)


_BY_ELEMENT = {id(element): kind for kind in MULTIPLICANDS for element in kind.types}
"""By identity, which is all that most look-ups need: each type is one object, unless somebody copied it."""


def multiplicands_of(element: ElementType) -> Multiplicands | None:
    """The set that `element` belongs to, None where no wgmma multiplies it."""
    kind = _BY_ELEMENT.get(id(element))
    return kind or next((listed for listed in MULTIPLICANDS if element in listed.types), None)


def common_multiplicands(a: ElementType, b: ElementType) -> Multiplicands | None:
    """The set to which A and B both belong; None if wgmma does not multiply them."""
    kind = multiplicands_of(a)
    return kind if kind is not None and b in kind.types else None


def lowest_ptx_version(a: ElementType, b: ElementType, sparse: bool) -> PtxVersion:
    """The first PTX version that has the instruction. PTX ISA 9.7.15.5.2 and 9.7.15.6.3 (PTX ISA Notes)."""
    if a.is_integer and b.is_integer and a != b:
        return _MIXED_SIGN_PTX
    return _SPARSE_PTX if sparse else _PTX


def accumulator_registers(n: int, d: ElementType) -> int:
    """32-bit registers a thread that hold D of an m64`n` instruction."""
    return M * n * d.bits // (32 * WARPGROUP_SIZE)


def accumulator_class(d: ElementType) -> RegisterClass:
    """The class of D's registers: f16 comes in pairs, in the registers of integers."""
    return RegisterClass.F32 if d is f32 else RegisterClass.B32


@cache
def mma_async(
    n: int,
    d: ElementType,
    a: ElementType,
    b: ElementType,
    *,
    a_in_registers: bool = False,
    sparse: bool = False,
    satfinite: bool = False,
) -> Row:
    """wgmma.mma_async: D = A * B + D, asynchronous until a wait drains its group. PTX ISA 9.7.15.5.2, 9.7.15.6.3.

    M is 64, and K follows from the types. `sparse` is the `.sp` form, whose opcode is the same: the protocol does not
    tell them apart. Raises NoSuchRow outside of the lattice.
    """
    kind = _chosen_kind(n, d, a, b, sparse=sparse, satfinite=satfinite)
    k = kind.k(sparse)
    operands = _operands(kind, n, d, a_in_registers, sparse)
    return Row(
        family="wgmma",
        opcode=MMA_ASYNC,
        ptx=spelled(
            MMA_ASYNC,
            "sp" if sparse else None,
            "sync.aligned",
            f"m{M}n{n}k{k}",
            *(d.ptx, a.ptx, b.ptx),
            kind.operation,
            "satfinite" if satfinite else None,
        ),
        operands=operands,
        lowering=Asm(_mma_template(operands)),
        requires=Feature.SM_90 | Feature.WGMMA,
        ptx_version=lowest_ptx_version(a, b, sparse),
        # Shared memory is read after the issue: no load or store may move across it.
        effects=Effect.CONVERGENT | Effect.READS_MEMORY,
        semantics=_multiplying(n, a_in_registers, sparse),
        section="9.7.15.6.3" if sparse else "9.7.15.5.2",
        summary="Multiplies a sparse A with B into registers." if sparse else "Multiplies A with B into registers.",
        axes={
            "shape": (M, n, k),
            "d": d,
            "a": a,
            "b": b,
            "a_in_registers": a_in_registers,
            "sparse": sparse,
            "satfinite": satfinite,
        },
    )


def _multiplying(n: int, a_in_registers: bool, sparse: bool) -> Semantics:
    """K_BITS of each row of A are read, of which a sparse one has as many as a dense one, and of each column of B."""
    line = K_BITS // 8
    a, b = reads("a_desc", M * line), replace(reads("b_desc", n * line * (2 if sparse else 1)), by_each_warp=True)
    return Semantics(
        issues=Completion.MMA_GROUP,
        memory=(b,) if a_in_registers else (a, b),
        proxy=Proxy.ASYNC,
        multiplies=True,
        together=Scope.WARPGROUP,
    )


def _chosen_kind(
    n: int, d: ElementType, a: ElementType, b: ElementType, *, sparse: bool, satfinite: bool
) -> Multiplicands:
    types = tuple(element for kind in MULTIPLICANDS for element in kind.types)
    kind = next(kind for kind in MULTIPLICANDS if chosen("a", a, types) in kind.types)
    chosen("b", b, kind.types)
    chosen("d", d, kind.d)
    chosen("n", n, kind.n)
    chosen("sparse", sparse, (False, True) if kind.selectors else (False,))
    chosen("satfinite", satfinite, (False, True) if kind.saturates else (False,))
    return kind


def _operands(
    kind: Multiplicands, n: int, d: ElementType, a_in_registers: bool, sparse: bool
) -> tuple[RowOperand, ...]:
    return (
        output("d", accumulator_class(d), accumulator_registers(n, d), tied=True, meaning="accumulator"),
        output("scale_out", RegisterClass.B32, meaning="scale-D of the next instruction on this accumulator: 1"),
        operand("a", RegisterClass.B32, A_REGISTERS, meaning="fragment of A")
        if a_in_registers
        else operand("a_desc", RegisterClass.B64, meaning="shared-memory descriptor of A"),
        operand("b_desc", RegisterClass.B64, meaning="shared-memory descriptor of B"),
        *((operand("metadata", RegisterClass.B32, meaning="places of A's elements"),) if sparse else ()),
        operand("scale_d", RegisterClass.B32, meaning="0: D = A * B, otherwise D = A * B + D"),
        *_immediates(kind, a_in_registers, sparse),
    )


def _immediates(kind: Multiplicands, a_in_registers: bool, sparse: bool) -> Iterator[RowOperand]:
    if sparse:
        yield immediate("selector", kind.selectors, meaning="threads of each four that give the metadata")
    if kind.negates:
        yield immediate("scale_a", SCALES, meaning="-1 negates A")
        yield immediate("scale_b", SCALES, meaning="-1 negates B")
    if kind.transposes:
        if not a_in_registers:
            yield immediate("trans_a", TRANSPOSES, meaning="1: A is MN-major")
        yield immediate("trans_b", TRANSPOSES, meaning="1: B is MN-major")


_BRACED = ("d", "a")
"""Operands that are a vector of registers in PTX."""
_PTX_ORDER = (
    *("d", "a", "a_desc", "b_desc", "metadata", "selector", "scale_d"),
    *("scale_a", "scale_b", "trans_a", "trans_b"),
)


def _mma_template(operands: tuple[RowOperand, ...]) -> str:
    names = {operand.name for operand in operands}
    # PTX wants scale-D as a predicate, which asm operands cannot be.
    arguments = (
        "p" if name == "scale_d" else f"{{{{{{{name}}}}}}}" if name in _BRACED else f"{{{name}}}"
        for name in _PTX_ORDER
        if name in names
    )
    lines = (
        ".reg .pred p;",
        "setp.ne.b32 p, {scale_d}, 0;",
        f"{{ptx}} {', '.join(arguments)};",
        "mov.b32 {scale_out}, 1;",
    )
    return "\n".join(("{{", *lines, "}}"))


RegisterBlocks = tuple[tuple[RegisterClass, int], ...]
"""Register blocks of a thread: the class and the number of registers of each."""


@cache
def fence(registers: RegisterBlocks = ()) -> Row:
    """wgmma.fence: order the registers (and shared memory) written so far before the wgmma that follow.

    With `registers`, the blocks pass through it as `block0`, `block1`, ..., so that LLVM cannot move a write of theirs
    below it. PTX ISA 9.7.15.7.1.
    """
    semantics = Semantics(fence=FenceSemantics(FenceOf.REGISTERS), together=Scope.WARPGROUP)
    summary = "Orders register accesses before wgmma.mma_async."
    return _protocol("wgmma.fence", "9.7.15.7.1", summary, semantics, registers)


@cache
def commit_group() -> Row:
    """wgmma.commit_group: close the group of all wgmma issued since the last commit. PTX ISA 9.7.15.7.2."""
    semantics = Semantics(commits=Completion.MMA_GROUP, together=Scope.WARPGROUP)
    return _protocol("wgmma.commit_group", "9.7.15.7.2", "Makes a group of the wgmma issued so far.", semantics)


@cache
def wait_group(registers: RegisterBlocks = (), fragments: int = 0) -> Row:
    """wgmma.wait_group: wait until at most `pending` (immediate) of the newest groups are in flight.

    The register blocks pass through it as `block0`, `block1`, ..., so that LLVM cannot move a read of theirs above it.
    It reads as many 32-bit registers of `fragments` of A, so that LLVM gives them to nothing else before it.
    PTX ISA 9.7.15.7.3.
    """
    pending = immediate("pending", tuple(PENDING_GROUPS), meaning="groups that may stay in flight")
    semantics = Semantics(awaits=Completion.MMA_GROUP, together=Scope.WARPGROUP)
    kept = operand("fragments", RegisterClass.B32, fragments, meaning="A of mma that may be in flight")
    operands = (*((kept,) if fragments else ()), pending)
    return _protocol("wgmma.wait_group", "9.7.15.7.3", "Waits for groups of wgmma.", semantics, registers, operands)


WRITTEN = "WGMMA_WROTE"
"""The label in the text of `zero_unwritten` that is reached where nothing is to be done."""


@cache
def zero_unwritten(register: RegisterClass, count: int) -> Row:
    """Not one instruction: moves of 0 to the registers of an accumulator that no wgmma has written to.

    They are jumped over where `scale_d`, that of the next wgmma on this accumulator, is not 0. All threads of a warp
    agree on it.
    """
    zeros = (f"mov.b32 {{d[{index}]}}, 0;" for index in range(count))
    lines = (".reg .pred p;", "setp.ne.b32 p, {scale_d}, 0;", f"@p bra.uni {WRITTEN};", *zeros, f"{WRITTEN}:")
    return Row(
        family="wgmma",
        opcode="mov",
        ptx="mov.b32",
        operands=(
            output("d", register, count, tied=True, meaning="accumulator"),
            operand("scale_d", RegisterClass.B32, meaning="0: no wgmma has written to it"),
        ),
        lowering=Asm("\n".join(("{{", *lines, "}}"))),
        effects=Effect.CONVERGENT,
        section="9.7.15.5.2",
        summary="Sets an accumulator to 0 that no wgmma has written to.",
    )


def _protocol(
    opcode: str,
    section: str,
    summary: str,
    semantics: Semantics,
    registers: RegisterBlocks = (),
    operands: tuple[RowOperand, ...] = (),
) -> Row:
    ptx = f"{opcode}.sync.aligned"
    blocks = (output(f"block{place}", *block, tied=True) for place, block in enumerate(registers))
    lowering: Asm | Intrinsic
    if operands:
        lowering = Asm("{ptx} {pending};")
    elif registers:
        lowering = Asm("{ptx};")
    else:
        lowering = Intrinsic(f"llvm.nvvm.{ptx}")
    return Row(
        family="wgmma",
        opcode=opcode,
        ptx=ptx,
        operands=(*blocks, *operands),
        lowering=lowering,
        requires=Feature.SM_90 | Feature.WGMMA,
        ptx_version=_PTX,
        effects=Effect.CONVERGENT | Effect.ORDERS,
        semantics=semantics,
        section=section,
        summary=summary,
        axes={"registers": registers},
    )


def rows() -> Iterator[Row]:
    """Every row, in the order of the tables; fence and wait without registers."""
    yield from (fence(), commit_group(), wait_group())
    for kind in MULTIPLICANDS:
        for a, b in kind.pairs:
            yield from _rows_of(kind, a, b)


def _rows_of(kind: Multiplicands, a: ElementType, b: ElementType) -> Iterator[Row]:
    for d in kind.d:
        for sparse in (False, True) if kind.selectors else (False,):
            for a_in_registers in (False, True):
                for satfinite in (False, True) if kind.saturates else (False,):
                    for n in kind.n:
                        yield mma_async(n, d, a, b, a_in_registers=a_in_registers, sparse=sparse, satfinite=satfinite)
