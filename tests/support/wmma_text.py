"""wmma instructions spelled from PTX ISA 9.7.14.4, not from the rows: as they are asked for, legal or not."""

from __future__ import annotations

from nvbackend.isel.select.wmma.request import WmmaMoveRequest, WmmaRequest

DECLARATIONS = ".reg .b32 %r<64>; .reg .f32 %f<64>; .reg .f64 %d<64>; .reg .b64 %p; .reg .b32 %q; .reg .b32 %s;"
"""Registers for every instruction that is written here."""
_BITS = {
    **dict.fromkeys(("f16", "bf16"), 16),
    **dict.fromkeys(("tf32", "f32", "s32"), 32),
    **dict.fromkeys(("s8", "u8", "e4m3"), 8),
    **dict.fromkeys(("s4", "u4"), 4),
    "b1": 1,
    "f64": 64,
}


def registers(fragment: str, shape: tuple[int, int, int], element: str) -> int:
    """Registers a thread: 9.7.14.4.1, continued to shapes that there are not."""
    m, n, k = shape
    if fragment in "ab" and element == "f16":
        return 8
    elements = {"a": m * k, "b": k * n}.get(fragment, m * n)
    return max(1, elements * _BITS[element] // (2048 if element == "f64" else 1024))


def _vector(fragment: str, shape: tuple[int, int, int], element: str) -> str:
    letter = {"f64": "d", "f32": "f"}.get(element, "r")
    return "{" + ", ".join(f"%{letter}{index}" for index in range(registers(fragment, shape, element))) + "}"


def _shape(shape: tuple[int, int, int]) -> str:
    return "m{}n{}k{}".format(*shape)


def move(request: WmmaMoveRequest) -> str:
    """A whole load or store."""
    space = f".{request.space}" if request.space else ""
    name = (
        f"wmma.{request.operation}.{request.fragment}.sync.aligned.{request.layout}.{_shape(request.shape)}"
        f"{space}.{request.element}"
    )
    address = "[%q]" if request.space and request.space.startswith("shared") else "[%p]"
    vector = _vector(request.fragment, request.shape, request.element.name)
    operands = [vector, address] if request.operation == "load" else [address, vector]
    return f"{name} {', '.join([*operands, '%s'] if request.strided else operands)};"


def multiplication(request: WmmaRequest) -> str:
    """A whole wmma.mma. f16 multiplicands are not named where there is nothing else to say of them."""
    popc = f".{request.popc}.popc" if request.popc else ""
    rounding = f".{request.rounding}" if request.rounding else ""
    types = [request.d, request.a, request.b, request.c]
    if request.a.name == request.b.name == "f16":
        types = [request.d, request.c]
    name = (
        f"wmma.mma{popc}.sync.aligned.{request.a_layout}.{request.b_layout}.{_shape(request.shape)}{rounding}."
        f"{'.'.join(map(str, types))}{'.satfinite' if request.satfinite else ''}"
    )
    elements = {"d": request.d, "a": request.a, "b": request.b, "c": request.c}
    return f"{name} {', '.join(_vector(which, request.shape, one.name) for which, one in elements.items())};"
