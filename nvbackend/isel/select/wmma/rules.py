"""What a wmma instruction may be: every rule and its gate, for selector and verifier alike.

The legal values are in the tables of `intrinsics.mma.wmma`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nvbackend.diagnostics import Rule
from nvbackend.intrinsics.fragments.wmma import FRAGMENTS, Shape, spelled_shape
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.types import ElementType, e4m3, e5m2, f32, f64, tf32
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest
from nvbackend.isel.target.target import Gate, Target, Values, dotted, targets_with

AnyRequest = WmmaRequest | WmmaMoveRequest


def _or(values: Iterable[object]) -> str:
    return " or ".join(map(str, values))


def _nearest_first(shape: Shape, legal: Iterable[Shape]) -> str:
    """The legal shapes in words, those first that share most extents with `shape`."""
    by_distance = sorted(legal, key=lambda candidate: sum(x != y for x, y in zip(shape, candidate, strict=True)))
    return _or(map(spelled_shape, by_distance))


def _described(request: AnyRequest) -> str:
    if isinstance(request, WmmaMoveRequest):
        name = f"wmma.{request.operation}.{request.fragment}"
        return f"{name} {spelled_shape(request.shape)} {request.element}"
    popc = f".{request.popc}.popc" if request.popc else ""
    return f"wmma.mma{popc} {spelled_shape(request.shape)} {request.a}"


def _needed(request: AnyRequest) -> wmma.Needs | None:
    """What a target must have, None if the row is missing for another reason."""
    kind = request.kind
    if kind is None:
        return None
    return kind.gate if isinstance(request, WmmaMoveRequest) else wmma.gate_of_mma(kind, request.popc)


def _other_target(request: AnyRequest, target: Target) -> Values | None:
    needed = _needed(request)
    if needed is None or target.has(needed[0]):
        return None
    popc = request.kind.popc if request.kind else {}
    operations = [f".{operation}.popc" for operation, (features, _) in popc.items() if target.has(features)]
    types = [element for kind in wmma.KINDS if target.has(kind.gate[0]) for element in kind.types]
    return {
        "target": target,
        "instruction": _described(request),
        "alternative": _or(operations) if operations else f"multiplicands of {_or(types)}",
        "targets": targets_with(needed[0]),
    }


TARGET = Gate(
    Rule(
        id="wmma.target",
        message="{target} has no {instruction}",
        fix="use {alternative}, or compile for {targets}",
        why="LLVM ends the process where it cannot select the instruction, and ptxas refuses it.",
        reference="PTX ISA 9.7.14.4.3 to 9.7.14.4.5 (Target ISA Notes); ptxas 13.5",
    ),
    _other_target,
)


def _old_ptx(request: AnyRequest, target: Target) -> Values | None:
    needed = _needed(request)
    if needed is None or not target.has(needed[0]) or target.ptx_version >= needed[1]:
        return None
    versions = {"needed": dotted(needed[1]), "given": dotted(target.ptx_version)}
    return {"instruction": _described(request), "target": target, **versions}


PTX_VERSION = Gate(
    Rule(
        id="wmma.ptx-version",
        message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
        fix="leave the PTX version of the target out, or give {needed} or later",
        why="LLVM ends the process, or ptxas refuses the instruction.",
        reference="PTX ISA 9.7.14.4.3 to 9.7.14.4.5 (PTX ISA Notes: .aligned is PTX 6.3)",
    ),
    _old_ptx,
)
_STAND_INS: dict[ElementType, str] = {
    f32: f"{tf32} multiplicands (m16n16k8)",
    **dict.fromkeys((e4m3, e5m2), "mma.sync, which has types of 8 bits and less"),
}


def _other_types(request: WmmaRequest, _: Target) -> Values | None:
    kind = request.kind
    known = [element for listed in wmma.KINDS for element in listed.types]
    if kind is not None:
        if request.c in kind.accumulators and request.d in kind.accumulators:
            return None
        instead = f"C and D of {_or(kind.accumulators)}"
    elif request.a in known and request.b in known:
        instead = f"one type for A and B, {request.a} or {request.b}"
    else:
        odd = request.a if request.a not in known else request.b
        instead = _STAND_INS.get(odd, f"A and B of {_or(known)}")
    return {"a": request.a, "b": request.b, "c": request.c, "d": request.d, "instead": instead}


TYPES = Gate(
    Rule(
        id="wmma.types",
        message="wmma.mma does not multiply {a} x {b} + {c} -> {d}",
        fix="use {instead}",
        why="No ptxas takes the combination, and LLVM takes the unknown intrinsic for an external function.",
        reference="PTX ISA 9.7.14.4.5",
    ),
    _other_types,
)
_MISCOMPILED = ((16, 16, 16), (16, 16, 8))
"""Shapes of f64 that ptxas takes."""


def _other_shape(request: WmmaRequest, _: Target) -> Values | None:
    kind = request.kind
    if kind is None or request.shape in kind.shapes:
        return None
    wrong_code = request.a is f64 and request.shape in _MISCOMPILED
    return {
        "a": request.a,
        "given": spelled_shape(request.shape),
        "remark": ": ptxas takes it and emits no multiplication" if wrong_code else "",
        "legal": _nearest_first(request.shape, kind.shapes),
    }


SHAPE = Gate(
    Rule(
        id="wmma.shape",
        message="wmma.mma {a} has no shape {given}{remark}",
        fix="use {legal}",
        why="LLVM takes the unknown intrinsic for an external function, and ptxas refuses most of the others.",
        reference="PTX ISA 9.7.14.2; ptxas 13.5",
    ),
    _other_shape,
)
_LAYOUT = Rule(
    id="wmma.layout",
    message="{instruction} takes layout {legal}, not {given}",
    fix="use {legal}: store the matrix so that the K elements of a row of A, or of a column of B, follow one another",
    why="LLVM and ptxas know no other spelling; elements smaller than a byte are read along K only.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.5",
)


def _other_layouts(request: WmmaRequest, _: Target) -> Values | None:
    kind = request.kind
    if kind is None or (request.a_layout, request.b_layout) in kind.layouts:
        return None
    legal, layouts = _or(map(".".join, kind.layouts)), f"{request.a_layout}.{request.b_layout}"
    return {"instruction": _described(request), "legal": legal, "given": layouts}


def _other_layout(request: WmmaMoveRequest, _: Target) -> Values | None:
    legal = request.kind.layouts_of(request.fragment) if request.kind else ()
    if request.kind is None or request.layout in legal:
        return None
    return {"instruction": _described(request), "legal": _or(legal), "given": request.layout}


LAYOUTS = Gate(_LAYOUT, _other_layouts)
MOVED_LAYOUT = Gate(_LAYOUT, _other_layout)


def _saturates(request: WmmaRequest, _: Target) -> Values | None:
    if request.kind is None or request.kind.saturates or not request.satfinite:
        return None
    return {"a": request.a, "legal": _or(element for kind in wmma.KINDS if kind.saturates for element in kind.types)}


SATFINITE = Gate(
    Rule(
        id="wmma.satfinite",
        message="wmma.mma {a} has no .satfinite",
        fix="leave satfinite out; multiplicands of {legal} have it",
        why="LLVM prints it for f16, where PTX dropped it in 6.5, and ptxas refuses it.",
        reference="PTX ISA 9.7.14.4.5; ptxas 13.5",
    ),
    _saturates,
)


def _other_rounding(request: WmmaRequest, _: Target) -> Values | None:
    if request.kind is None or request.rounding in request.kind.roundings:
        return None
    legal = [rounding for rounding in request.kind.roundings if rounding]
    instead = f"use {_or(legal)}, or none for rn" if legal else f"leave rounding out; only {f64} has it"
    return {"a": request.a, "given": request.rounding, "instead": instead}


ROUNDING = Gate(
    Rule(
        id="wmma.rounding",
        message="wmma.mma {a} has no rounding {given!r}",
        fix="{instead}",
        why="Other types round as the tensor core does; LLVM takes the unknown intrinsic for an external function.",
        reference="PTX ISA 9.7.14.4.5 (.rnd)",
    ),
    _other_rounding,
)


def _other_popc(request: WmmaRequest, _: Target) -> Values | None:
    if request.kind is None or request.popc in request.kind.operations:
        return None
    legal = _or(request.kind.popc)
    if not legal:
        problem = f".{request.popc}.popc is legal only on b1 multiplicands, not on {request.a}"
        return {"problem": problem, "instead": "leave popc out"}
    problem = f"wmma.mma {request.a} takes the bit operation {legal}, not {request.popc!r}"
    return {"problem": problem, "instead": f"give popc={legal}"}


POPC = Gate(
    Rule(
        id="wmma.popc",
        message="{problem}",
        fix="{instead}",
        why="b1 counts the ones of a bit operation in place of multiplying; the operation is part of the name.",
        reference="PTX ISA 9.7.14.4.5 (single-bit wmma)",
    ),
    _other_popc,
)


def _other_fragment(request: WmmaMoveRequest, _: Target) -> Values | None:
    movable = [fragment for fragment in FRAGMENTS if (fragment == wmma.STORED) == (request.operation == "store")]
    known = request.operation in ("load", "store")
    if known and request.fragment in movable:
        return None
    legal = _or(map(repr, movable)) if known else "the operations load and store"
    return {"operation": request.operation, "given": request.fragment, "legal": legal}


FRAGMENT = Gate(
    Rule(
        id="wmma.fragment",
        message="wmma.{operation} does not move a fragment {given!r}",
        fix="use {legal}",
        why="The instruction does not exist: A, B and C are loaded, D is stored.",
        reference="PTX ISA 9.7.14.4.3, 9.7.14.4.4",
    ),
    _other_fragment,
)


def _other_fragment_type(request: WmmaMoveRequest, _: Target) -> Values | None:
    if request.fragment not in FRAGMENTS or request.kind is not None:
        return None
    fragment = request.fragment
    shapes = {shape for kind in wmma.KINDS if request.element in kind.types_of(fragment) for shape in kind.shapes}
    types = dict.fromkeys(
        element for kind in wmma.KINDS if request.shape in kind.shapes for element in kind.types_of(fragment)
    )
    ways = []
    if shapes:
        ways.append(f"{_nearest_first(request.shape, sorted(shapes))} for {request.element}")
    if types:
        ways.append(f"{_or(types)} for {spelled_shape(request.shape)}")
    return {
        "fragment": fragment,
        "shape": spelled_shape(request.shape),
        "element": request.element,
        "legal": ", or ".join(ways) or "m16n16k16 with f16",
    }


FRAGMENT_TYPE = Gate(
    Rule(
        id="wmma.fragment-type",
        message="wmma has no fragment {fragment} of {shape} {element}",
        fix="use {legal}",
        why="LLVM takes the unknown intrinsic for an external function; no wmma.mma takes such a fragment.",
        reference="PTX ISA 9.7.14.4.1; ptxas 13.5",
    ),
    _other_fragment_type,
)


def _other_space(request: WmmaMoveRequest, _: Target) -> Values | None:
    if request.space in wmma.SPACES:
        return None
    legal = _or(repr(space) for space in wmma.SPACES if space is not None)
    return {"operation": request.operation, "given": request.space, "legal": legal}


SPACE = Gate(
    Rule(
        id="wmma.space",
        message="wmma.{operation} does not reach the state space {given!r}",
        fix="use {legal}, or None for a generic address",
        why="ptxas refuses other state spaces; the shared memory of other CTAs is not reached.",
        reference="PTX ISA 9.7.14.4.3, 9.7.14.4.4 (.ss)",
    ),
    _other_space,
)
GATES: tuple[Gate[WmmaRequest], ...] = (TARGET, PTX_VERSION, TYPES, SHAPE, LAYOUTS, SATFINITE, ROUNDING, POPC)
"""Every gate of a multiplication. A request that breaks none has a row that ptxas takes for the target."""
MOVE_GATES: tuple[Gate[WmmaMoveRequest], ...] = (TARGET, PTX_VERSION, FRAGMENT, FRAGMENT_TYPE, MOVED_LAYOUT, SPACE)
"""Every gate of a load or store."""
