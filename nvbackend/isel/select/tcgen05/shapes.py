"""Which shapes a tcgen05.mma has: what its instruction descriptor may say besides its qualifiers.

ptxas does not see the descriptor, so this is its only check. PTX ISA 9.7.16.2.1 (table of kinds and shapes).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nvbackend.diagnostics import Diagnostic, Rule
from nvbackend.intrinsics.row.features import Feature
from nvbackend.intrinsics.words.scale_triples import factor_faults
from nvbackend.intrinsics.words.tcgen05_control import scale_factors
from nvbackend.intrinsics.words.tcgen05_descriptor import InstructionDescriptor
from nvbackend.isel.operands.memory import OPERANDS
from nvbackend.isel.select.tcgen05.request import Tcgen05Request
from nvbackend.isel.target.target import Target, targets_with

_REFERENCE = "PTX ISA 9.7.16.2.1 (matrix shape)"
M = Rule(
    id="tcgen05.m",
    message="{form} has M = {legal}, not {given}",
    fix="use M = {nearest}, or another cta_group",
    why="The descriptor is data: neither LLVM nor ptxas see it, and the GPU stops the kernel or writes other lanes.",
    reference=_REFERENCE,
)
N = Rule(
    id="tcgen05.n",
    message="{form} has no N = {given}",
    fix="use N = {nearest}",
    why="The descriptor is data: neither LLVM nor ptxas see it, and the GPU stops the kernel or writes other columns.",
    reference=_REFERENCE,
)
DESCRIPTOR = Rule(
    id="tcgen05.descriptor",
    message="the instruction is {form}, and its instruction descriptor is of {given}",
    fix="make both of the same kind, and sparse or dense",
    why="The bits of the descriptor have another meaning in another kind.",
    reference="PTX ISA 9.7.16.4.2 (instruction descriptor)",
)
K = Rule(
    id="tcgen05.k",
    message="{form} multiplies K = {legal} at a time, not {given}",
    fix="use K = {legal} in the name of the shape, and more instructions for a larger K",
    why="The kind decides how much of K an instruction takes: the rest would not be multiplied.",
    reference=_REFERENCE,
)
K96 = Rule(
    id="tcgen05.k96",
    message="{target} has no tcgen05.mma of {form} with K = 96",
    fix="use K = {k} (k96=False), or compile for {instead}",
    why="The bit of the descriptor that says so is reserved on other chips, and neither LLVM nor ptxas see it.",
    reference="CUTLASS 4, SM103MmaMXF4Op and SM103MmaMXF4NVF4Op; PTX ISA 9.7.16.4.2 (instruction descriptor)",
)


def legal_m(request: Tcgen05Request) -> tuple[int, ...]:
    """The rows of D that the instruction can have, over all CTAs of its group."""
    scaled = request.of is not None and request.of.block_scale
    if request.weight_stationary:
        return (32, 64, 128)
    if request.cta_group == 1:
        return (128,) if scaled else (64, 128)
    return (256,) if scaled and request.sparse else (128, 256)


def legal_n(request: Tcgen05Request) -> Collection[int]:
    """The columns of D that the instruction can have."""
    if request.weight_stationary:
        return (64, 128) if request.sparse else (64, 128, 256)
    if request.kind == "i8":
        return (8, 16, 24, *range(32, 257, 16)) if request.cta_group == 1 else range(32, 257, 32)
    return range(8 * request.cta_group, 257, 8 * request.cta_group)


def shape_faults(
    request: Tcgen05Request, descriptor: InstructionDescriptor, target: Target | None = None
) -> Iterator[Diagnostic]:
    """What the descriptor says that an instruction as in `request` does not do (tcgen05.m, .n, .descriptor).

    Also scale factors of a type that its blocks do not have (block-scale.atom). With a `target`, what it does elsewhere
    only as well (tcgen05.k96).
    """
    form = f"{'sparse' if request.sparse else 'dense'} kind::{request.kind}"
    if (descriptor.kind, descriptor.sparse) != (request.kind, request.sparse):
        described = f"{'sparse' if descriptor.sparse else 'dense'} kind::{descriptor.kind}"
        yield DESCRIPTOR.diagnose(form=form, given=described)
        return
    form += " with weight stationary" if request.weight_stationary else f" of {request.cta_group} CTA(s)"
    rows, columns = legal_m(request), legal_n(request)
    if descriptor.m not in rows:
        legal = " or ".join(map(str, rows))
        yield M.diagnose(form=form, legal=legal, given=descriptor.m, nearest=_nearest(rows, descriptor.m))
    if descriptor.n not in columns:
        yield N.diagnose(form=form, given=descriptor.n, nearest=_nearest(columns, descriptor.n))
    yield from _factor_faults(request, descriptor)
    if target is not None and not is_k_of(descriptor, target):
        yield K96.diagnose(target=target, form=form, k=descriptor.form.k, instead=targets_with(Feature.TMEM_K96))


def _factor_faults(request: Tcgen05Request, descriptor: InstructionDescriptor) -> Iterator[Diagnostic]:
    """Blocks of 32 have factors of ue8m0 alone; ptxas sees the blocks, and the type is in the descriptor."""
    if request.of is None or descriptor.scale is None or request.scale_vector not in request.of.scale_vectors:
        return
    k = descriptor.form.k
    vec_size = k // scale_factors(request.kind, request.scale_vector)
    yield from factor_faults(k, vec_size, descriptor.a, descriptor.b, descriptor.scale)


def descriptor_of(request: Tcgen05Request, separate: InstructionDescriptor | None) -> InstructionDescriptor:
    """The descriptor beside a request, or else its own. Raises tcgen05.operands without one."""
    descriptor = separate or request.descriptor
    if descriptor is None:
        form = f"tcgen05.mma of kind::{request.kind}"
        OPERANDS.fail(instruction=form, wanted="an instruction descriptor", given="none")
    return descriptor


def check_k(descriptor: InstructionDescriptor, k: int) -> None:
    """Raises tcgen05.k unless an instruction as in `descriptor` takes so much of K."""
    if k != descriptor.k:
        form = f"{'sparse' if descriptor.sparse else 'dense'} kind::{descriptor.kind}"
        K.fail(form=form, legal=descriptor.k, given=k)


def is_k_of(descriptor: InstructionDescriptor, target: Target) -> bool:
    """Whether `target` has instructions of the descriptor's K; a K of 96 is not everywhere where tcgen05 is."""
    return not descriptor.k96 or target.has(Feature.TMEM_K96)


def _nearest(legal: Collection[int], extent: int) -> int:
    return min(legal, key=lambda candidate: abs(candidate - extent))
