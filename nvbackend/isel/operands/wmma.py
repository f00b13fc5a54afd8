"""Rules on what wmma is given: addresses, strides, and fragments that fit one another."""

from __future__ import annotations

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.fragments.wmma import ACCUMULATORS, Shape, fragment_bytes, register_count, spelled_shape
from nvbackend.intrinsics.row.types import ElementType

_STRIDE_BYTES = 16

ALIGNMENT = Rule(
    id="wmma.alignment",
    message="{instruction} needs an address that is a multiple of {bytes} bytes; this one promises {align}",
    fix="promise it where it is known: Pointer(element, align={bytes}), k.shared(..., align={bytes}), or "
    "address.byte_offset(step, align={bytes})",
    why="The threads move up to 16 bytes at once: a misaligned access ends the context.",
    reference="PTX ISA 9.7.14.4.2 (address alignment)",
)
STRIDE = Rule(
    id="wmma.stride",
    message="a stride of {stride} {element} is {bits} bits; {instruction} takes multiples of {step} elements",
    fix="use a stride of {nearest}: pad the rows",
    why="Every second row would start at a misaligned address, which ends the context.",
    reference="PTX ISA 9.7.14.4.2 (address alignment); CUDA C++ Programming Guide, warp matrix functions (ldm)",
)
OVERLAP = Rule(
    id="wmma.overlap",
    message="{instruction} with a stride of {stride} writes rows of {extent} elements over one another",
    fix="use a stride of {extent} elements or more, or none for rows that follow at once",
    why="Which of the overlapping elements stays is not defined.",
    reference="PTX ISA 9.7.14.4.2 (stride)",
)
ELEMENT = Rule(
    id="wmma.element",
    message="{instruction} reaches elements of type {wanted}; the address is one of {given}",
    fix="if the memory holds {wanted} all the same, say so: address.cast({wanted})",
    why="The bytes would be taken for numbers of another type.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.4",
)
OPERAND = Rule(
    id="wmma.operand",
    message="operand {operand} of {instruction} {shape} is {given}",
    fix="give {wanted}",
    why="The registers would be taken for other elements: how they lie in a fragment depends on all of it.",
    reference="PTX ISA 9.7.14.4.1 (shape, layout and element type must match)",
)
ARITY = Rule(
    id="wmma.arity",
    message="a fragment {fragment} of {shape} {element} is {count} registers a thread, not {given}",
    fix="give {count} registers of type {register}",
    why="The intrinsic has as many operands as the fragment has registers; LLVM takes any other for a function.",
    reference="PTX ISA 9.7.14.4.1",
)
OPAQUE = Rule(
    id="wmma.opaque",
    message="which element register {index} of thread {thread} holds is not specified for {fragment}",
    fix="store the fragment with k.wmma.store and read the matrix, or use mma.sync, whose fragments are specified",
    why="It differs from chip to chip; what is right on one would be wrong on the next.",
    reference="PTX ISA 9.7.14.4.1",
)


def stride_step(fragment: str, shape: Shape, element: ElementType) -> int:
    """The elements of which a stride is a multiple: 16 bytes, or the thread's part of the matrix where it is less."""
    return min(_STRIDE_BYTES, fragment_bytes(fragment, shape, element)) * 8 // element.bits


def stride_violations(
    instruction: str,
    fragment: str,
    shape: Shape,
    element: ElementType,
    stride: int,
    extent: int,
    at: Location | None = None,
) -> list[Diagnostic]:
    """What is wrong with a constant `stride`, in elements; `extent` elements of a row (column) follow one another."""
    step = stride_step(fragment, shape, element)
    faults = []
    if stride % step or stride < 0:
        below = max(0, stride // step * step)
        nearest = f"{below} or {below + step}" if below else f"{step}"
        faults.append(
            STRIDE.diagnose(
                at=at,
                stride=stride,
                element=element,
                bits=stride * element.bits,
                instruction=instruction,
                step=step,
                nearest=nearest,
            )
        )
    elif stride < extent and fragment == "d":
        faults.append(OVERLAP.diagnose(at=at, instruction=instruction, stride=stride, extent=extent))
    return faults


def address_violations(
    instruction: str,
    fragment: str,
    shape: Shape,
    element: ElementType,
    actual: ElementType,
    align: int,
    at: Location | None = None,
) -> list[Diagnostic]:
    """What is wrong with an address of `actual` elements that promises `align` bytes."""
    faults = []
    needed = fragment_bytes(fragment, shape, element)
    if actual is not element:
        faults.append(ELEMENT.diagnose(at=at, instruction=instruction, wanted=element, given=actual))
    if align % needed:
        faults.append(ALIGNMENT.diagnose(at=at, instruction=instruction, bytes=needed, align=align))
    return faults


def check_arity(fragment: str, shape: Shape, element: ElementType, register: ElementType, registers: int) -> None:
    """Raises wmma.arity unless the fragment has as many registers as `registers`; `register` is the type of each."""
    count = register_count(fragment, shape, element)
    if registers != count:
        ARITY.fail(
            fragment=fragment.upper(),
            shape=spelled_shape(shape),
            element=element,
            count=count,
            given=registers,
            register=register,
        )


def operand_violations(
    operand: str, shape: Shape, element: ElementType, fragment: tuple[str, Shape, ElementType], text: str
) -> list[Diagnostic]:
    """What is wrong with a fragment (which, shape, element) in the place of `operand` ("a", "b" or "c") of an mma.

    `text` is what the fragment is called.
    """
    which, given_shape, given_element = fragment
    legal = ACCUMULATORS if operand in ACCUMULATORS else (operand,)
    if which in legal and given_shape == shape and given_element is element:
        return []
    return [misplaced("wmma.mma", operand, shape, text, described(operand, shape, element))]


def misplaced(
    instruction: str,
    operand: str,
    shape: Shape,
    actual: str,
    wanted: str,
    at: Location | None = None,
    filled: Location | None = None,
) -> Diagnostic:
    """wmma.operand: `actual` as `operand` where `wanted` belongs, both in words; `filled` is where it comes from."""
    notes = (("it is made here", filled),) if filled is not None else ()
    return OPERAND.diagnose(
        at=at,
        notes=notes,
        operand=operand.upper(),
        instruction=instruction,
        shape=spelled_shape(shape),
        given=actual,
        wanted=wanted,
    )


def described(fragment: str, shape: Shape, element: ElementType, layout: str | None = None) -> str:
    """What diagnostics call a fragment."""
    kind = "an accumulator" if fragment in ACCUMULATORS else f"a fragment {fragment.upper()}"
    return f"{kind} of {spelled_shape(shape)} {element}" + (f" {layout}" if layout else "")
