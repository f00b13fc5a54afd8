"""What a wmma instruction may be: every rule and its predicate, for every path that selects one.

The legal values are in the tables of `intrinsics.mma.wmma`; nothing here repeats one.
"""

from __future__ import annotations

from collections.abc import Iterable

from nvbackend.diagnostics import Diagnostic, Location, Rule
from nvbackend.intrinsics.fragments.wmma import FRAGMENTS, Shape, spelled_shape
from nvbackend.intrinsics.mma import wmma
from nvbackend.intrinsics.row.row import Row
from nvbackend.intrinsics.row.types import ElementType, e4m3, e5m2, f32, f64, tf32
from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest, request_of
from nvbackend.isel.target.gates import RequestGate, Values, broken_gates
from nvbackend.isel.target.target import Target, dotted, target_names

AnyRequest = WmmaRequest | WmmaMoveRequest


def _or(values: Iterable[object]) -> str:
    return " or ".join(map(str, values))


def _nearest_first(shape: Shape, legal: Iterable[Shape]) -> str:
    """The legal shapes in words, those first that share most extents with `shape`."""
    by_distance = sorted(legal, key=lambda one: sum(x != y for x, y in zip(shape, one, strict=True)))
    return _or(map(spelled_shape, by_distance))


def _described(request: AnyRequest) -> str:
    if isinstance(request, WmmaMoveRequest):
        name = f"wmma.{request.operation}.{request.fragment}"
        return f"{name} {spelled_shape(request.shape)} {request.element}"
    popc = f".{request.popc}.popc" if request.popc else ""
    return f"wmma.mma{popc} {spelled_shape(request.shape)} {request.a}"


def _gate(request: AnyRequest) -> wmma.Gate | None:
    """What a target must have, None if the row is missing for another reason."""
    kind = request.kind
    if kind is None:
        return None
    return kind.gate if isinstance(request, WmmaMoveRequest) else wmma.gate_of_mma(kind, request.popc)


TARGET = Rule(
    id="wmma.target",
    message="{target} has no {instruction}",
    fix="use {alternative}, or compile for {first} or later",
    why="LLVM ends the process where it cannot select the instruction, and ptxas refuses it.",
    reference="PTX ISA 9.7.14.4.3 to 9.7.14.4.5 (Target ISA Notes); ptxas 13.5",
)


def _target_holds(request: AnyRequest, target: Target) -> bool:
    gate = _gate(request)
    return gate is None or target.has(gate[0])


def _target_values(request: AnyRequest, target: Target) -> Values:
    features, _ = _gate(request) or (target.features, None)
    popc = request.kind.popc if request.kind else {}
    operations = [f".{operation}.popc" for operation, gate in popc.items() if target.has(gate[0])]
    types = [element for kind in wmma.KINDS if target.has(kind.gate[0]) for element in kind.types]
    return {
        "target": target,
        "instruction": _described(request),
        "alternative": _or(operations) if operations else f"multiplicands of {_or(types)}",
        "first": next(name for name in target_names() if Target.parse(name).has(features)),
    }


PTX_VERSION = Rule(
    id="wmma.ptx-version",
    message="{instruction} needs PTX {needed} or later; {target} is compiled with PTX {given}",
    fix="leave the PTX version of the target out, or give {needed} or later",
    why="LLVM ends the process, or ptxas refuses the instruction.",
    reference="PTX ISA 9.7.14.4.3 to 9.7.14.4.5 (PTX ISA Notes: .aligned is PTX 6.3)",
)


def _ptx_holds(request: AnyRequest, target: Target) -> bool:
    gate = _gate(request)
    return gate is None or not target.has(gate[0]) or target.ptx_version >= gate[1]


def _ptx_values(request: AnyRequest, target: Target) -> Values:
    _, needed = _gate(request) or (None, target.ptx_version)
    return {
        "instruction": _described(request),
        "needed": dotted(needed),
        "target": target,
        "given": dotted(target.ptx_version),
    }


TYPES = Rule(
    id="wmma.types",
    message="wmma.mma does not multiply {a} x {b} + {c} -> {d}",
    fix="use {instead}",
    why="No ptxas takes the combination, and LLVM takes the unknown intrinsic for an external function.",
    reference="PTX ISA 9.7.14.4.5",
)
_STAND_INS: dict[ElementType, str] = {
    f32: f"{tf32} multiplicands (m16n16k8)",
    **dict.fromkeys((e4m3, e5m2), "mma.sync, which has types of 8 bits and less"),
}


def _types_hold(request: WmmaRequest, _: Target) -> bool:
    kind = request.kind
    return kind is not None and request.c in kind.accumulators and request.d in kind.accumulators


def _types_values(request: WmmaRequest, _: Target) -> Values:
    kind = request.kind
    known = [element for one in wmma.KINDS for element in one.types]
    if kind is not None:
        instead = f"C and D of {_or(kind.accumulators)}"
    elif request.a in known and request.b in known:
        instead = f"one type for A and B, {request.a} or {request.b}"
    else:
        odd = request.a if request.a not in known else request.b
        instead = _STAND_INS.get(odd, f"A and B of {_or(known)}")
    return {"a": request.a, "b": request.b, "c": request.c, "d": request.d, "instead": instead}


SHAPE = Rule(
    id="wmma.shape",
    message="wmma.mma {a} has no shape {given}{remark}",
    fix="use {legal}",
    why="LLVM takes the unknown intrinsic for an external function, and ptxas refuses most of the others.",
    reference="PTX ISA 9.7.14.2; ptxas 13.5",
)
_MISCOMPILED = ((16, 16, 16), (16, 16, 8))
"""Shapes of f64 that ptxas takes."""


def _shape_holds(request: WmmaRequest, _: Target) -> bool:
    return request.kind is None or request.shape in request.kind.shapes


def _shape_values(request: WmmaRequest, _: Target) -> Values:
    wrong_code = request.a is f64 and request.shape in _MISCOMPILED
    return {
        "a": request.a,
        "given": spelled_shape(request.shape),
        "remark": ": ptxas takes it and emits no multiplication" if wrong_code else "",
        "legal": _nearest_first(request.shape, request.kind.shapes if request.kind else ()),
    }


LAYOUT = Rule(
    id="wmma.layout",
    message="{instruction} takes layout {legal}, not {given}",
    fix="use {legal}: store the matrix so that the K elements of a row of A, or of a column of B, follow one another",
    why="LLVM and ptxas know no other spelling; elements smaller than a byte are read along K only.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.5",
)


def _layouts_hold(request: WmmaRequest, _: Target) -> bool:
    return request.kind is None or (request.a_layout, request.b_layout) in request.kind.layouts


def _layouts_values(request: WmmaRequest, _: Target) -> Values:
    return {
        "instruction": _described(request),
        "legal": _or(".".join(pair) for pair in (request.kind.layouts if request.kind else ())),
        "given": f"{request.a_layout}.{request.b_layout}",
    }


def _move_layout_holds(request: WmmaMoveRequest, _: Target) -> bool:
    return request.kind is None or request.layout in request.kind.layouts_of(request.fragment)


def _move_layout_values(request: WmmaMoveRequest, _: Target) -> Values:
    legal = request.kind.layouts_of(request.fragment) if request.kind else ()
    return {"instruction": _described(request), "legal": _or(legal), "given": request.layout}


SATFINITE = Rule(
    id="wmma.satfinite",
    message="wmma.mma {a} has no .satfinite",
    fix="leave satfinite out; multiplicands of {legal} have it",
    why="LLVM prints it for f16, where PTX dropped it in 6.5, and ptxas refuses it.",
    reference="PTX ISA 9.7.14.4.5; ptxas 13.5",
)


def _satfinite_holds(request: WmmaRequest, _: Target) -> bool:
    return request.kind is None or not request.satfinite or request.kind.saturates


def _satfinite_values(request: WmmaRequest, _: Target) -> Values:
    legal = (element for kind in wmma.KINDS if kind.saturates for element in kind.types)
    return {"a": request.a, "legal": _or(legal)}


ROUNDING = Rule(
    id="wmma.rounding",
    message="wmma.mma {a} has no rounding {given!r}",
    fix="{instead}",
    why="Other types round as the tensor core does; LLVM takes the unknown intrinsic for an external function.",
    reference="PTX ISA 9.7.14.4.5 (.rnd)",
)


def _rounding_holds(request: WmmaRequest, _: Target) -> bool:
    return request.kind is None or request.rounding in request.kind.roundings


def _rounding_values(request: WmmaRequest, _: Target) -> Values:
    legal = [rounding for rounding in (request.kind.roundings if request.kind else ()) if rounding]
    instead = f"use {_or(legal)}, or none for rn" if legal else f"leave rounding out; only {f64} has it"
    return {"a": request.a, "given": request.rounding, "instead": instead}


POPC = Rule(
    id="wmma.popc",
    message="{problem}",
    fix="{instead}",
    why="b1 counts the ones of a bit operation in place of multiplying; the operation is part of the name.",
    reference="PTX ISA 9.7.14.4.5 (single-bit wmma)",
)


def _popc_holds(request: WmmaRequest, _: Target) -> bool:
    return request.kind is None or request.popc in request.kind.operations


def _popc_values(request: WmmaRequest, _: Target) -> Values:
    legal = _or(request.kind.popc if request.kind else ())
    if not legal:
        return {
            "problem": f".{request.popc}.popc is legal only on b1 multiplicands, not on {request.a}",
            "instead": "leave popc out",
        }
    return {
        "problem": f"wmma.mma {request.a} takes the bit operation {legal}, not {request.popc!r}",
        "instead": f"give popc={legal}",
    }


FRAGMENT = Rule(
    id="wmma.fragment",
    message="wmma.{operation} does not move a fragment {given!r}",
    fix="use {legal}",
    why="The instruction does not exist: A, B and C are loaded, D is stored.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.4",
)


def _movable(request: WmmaMoveRequest) -> tuple[str, ...]:
    return tuple(one for one in FRAGMENTS if (one == wmma.STORED) == (request.operation == "store"))


def _fragment_holds(request: WmmaMoveRequest, _: Target) -> bool:
    return request.operation in ("load", "store") and request.fragment in _movable(request)


def _fragment_values(request: WmmaMoveRequest, _: Target) -> Values:
    known = request.operation in ("load", "store")
    return {
        "operation": request.operation,
        "given": request.fragment,
        "legal": _or(map(repr, _movable(request))) if known else "the operations load and store",
    }


FRAGMENT_TYPE = Rule(
    id="wmma.fragment-type",
    message="wmma has no fragment {fragment} of {shape} {element}",
    fix="use {legal}",
    why="LLVM takes the unknown intrinsic for an external function; no wmma.mma takes such a fragment.",
    reference="PTX ISA 9.7.14.4.1; ptxas 13.5",
)


def _fragment_type_holds(request: WmmaMoveRequest, _: Target) -> bool:
    return request.fragment not in FRAGMENTS or request.kind is not None


def _fragment_type_values(request: WmmaMoveRequest, _: Target) -> Values:
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


SPACE = Rule(
    id="wmma.space",
    message="wmma.{operation} does not reach the state space {given!r}",
    fix="use {legal}, or None for a generic address",
    why="ptxas refuses other state spaces; the shared memory of other CTAs is not reached.",
    reference="PTX ISA 9.7.14.4.3, 9.7.14.4.4 (.ss)",
)


def _space_holds(request: WmmaMoveRequest, _: Target) -> bool:
    return request.space in wmma.SPACES


def _space_values(request: WmmaMoveRequest, _: Target) -> Values:
    legal = _or(repr(space) for space in wmma.SPACES if space is not None)
    return {"operation": request.operation, "given": request.space, "legal": legal}


MMA_GATES: tuple[RequestGate[WmmaRequest], ...] = (
    RequestGate(TARGET, _target_holds, _target_values),
    RequestGate(PTX_VERSION, _ptx_holds, _ptx_values),
    RequestGate(TYPES, _types_hold, _types_values),
    RequestGate(SHAPE, _shape_holds, _shape_values),
    RequestGate(LAYOUT, _layouts_hold, _layouts_values),
    RequestGate(SATFINITE, _satfinite_holds, _satfinite_values),
    RequestGate(ROUNDING, _rounding_holds, _rounding_values),
    RequestGate(POPC, _popc_holds, _popc_values),
)
"""Every gate of a multiplication. A request with no broken one has a row that ptxas takes for the target."""
MOVE_GATES: tuple[RequestGate[WmmaMoveRequest], ...] = (
    RequestGate(TARGET, _target_holds, _target_values),
    RequestGate(PTX_VERSION, _ptx_holds, _ptx_values),
    RequestGate(FRAGMENT, _fragment_holds, _fragment_values),
    RequestGate(FRAGMENT_TYPE, _fragment_type_holds, _fragment_type_values),
    RequestGate(LAYOUT, _move_layout_holds, _move_layout_values),
    RequestGate(SPACE, _space_holds, _space_values),
)
"""Every gate of a load or store."""


def mma_violations(request: WmmaRequest, target: Target, at: Location | None = None) -> list[Diagnostic]:
    """Every rule that a multiplication breaks on `target`, at `at` or else at the caller's line."""
    return broken_gates(MMA_GATES, request, target, at)


def move_violations(request: WmmaMoveRequest, target: Target, at: Location | None = None) -> list[Diagnostic]:
    """Every rule that a load or store breaks on `target`, at `at` or else at the caller's line."""
    return broken_gates(MOVE_GATES, request, target, at)


def row_violations(row: Row, target: Target, at: Location | None = None) -> list[Diagnostic]:
    """Every rule that `row` of this family breaks on `target`, at `at` or else at the caller's line."""
    request = request_of(row)
    if isinstance(request, WmmaRequest):
        return mma_violations(request, target, at)
    return move_violations(request, target, at)
