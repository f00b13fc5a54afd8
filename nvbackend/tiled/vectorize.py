"""How wide an access two layouts allow: what follows each other in both, and what their addresses are multiples of."""

from __future__ import annotations

import math

from nvbackend.diagnostics import Diagnostic, user_facing
from nvbackend.layout import AnyLayout, ComposedLayout, Layout, coalesce, right_inverse, size
from nvbackend.layout.algebra.inttuple import Dynamic
from nvbackend.layout.algebra.simplify import Flat, flat_modes, from_flat
from nvbackend.layout.algebra.swizzle import BYTE_BITS
from nvbackend.tiled.copy_atom import UNIVERSAL_BITS, CopyAtom, CopyKind
from nvbackend.tiled.copy_rules import ALIGNMENT, VECTOR


@user_facing
def max_common_vector(a: AnyLayout, b: AnyLayout) -> int:
    """How many elements follow each other in both layouts, at the same coordinates: CuTe's max_common_vector.

    Strides that are known at run time only, and dynamic ones, count as steps over a gap; a swizzle keeps runs of the
    elements that it does not exchange, or less where such a run is not a layout. `a` and `b` have as many coordinates.
    """
    return size(max_common_layout(a, b))


@user_facing
def max_common_layout(a: AnyLayout, b: AnyLayout) -> Layout:
    """The coordinates of that run, in the order of memory: a(result(i)) == b(result(i)) == i, up to where both begin.

    CuTe's max_common_layout.
    """
    first, second = (_static(each.layout_b if isinstance(each, ComposedLayout) else each) for each in (a, b))
    inverse = right_inverse(second)
    assert isinstance(inverse, Layout)
    places = inverse.offsets()
    domain = size(first)
    run = next((at for at, place in enumerate(places) if place >= domain or first(place) != at), len(places))
    return _first(inverse, math.gcd(run, *(_swizzle_run(each) for each in (a, b))))


def _first(layout: Layout, count: int) -> Layout:
    """The layout of as many of the first indices as divide `count` and are whole modes and a part of the next."""
    modes: Flat = []
    for extent, stride in flat_modes(layout):
        inside = math.gcd(extent, count)
        modes.append((inside, stride))
        count //= inside
        if inside < extent:
            break
    return coalesce(from_flat(modes))


def _static(layout: Layout) -> Layout:
    """The layout with 0 for unknown strides: a mode of stride 0 never continues another mode."""
    flat = [
        (extent, stride if isinstance(stride, int) and not isinstance(stride, Dynamic) else 0)
        for extent, stride in flat_modes(layout)
    ]
    return from_flat(flat)


def _swizzle_run(layout: AnyLayout) -> int:
    """Elements that a swizzle keeps together; without a swizzle 0, which every number divides."""
    if not isinstance(layout, ComposedLayout) or not layout.swizzle.bits:
        return 0
    return 1 << layout.in_elements().swizzle.base


def multiple(layout: AnyLayout) -> int:
    """What the indices of a thread's accesses are multiples of, 0 for a single one at index 0.

    `layout` is a partition, ((FrgV,FrgX),Rest...), of which an access has FrgV.
    """
    plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
    outer = [*flat_modes(plain[0, 1]), *(mode for part in plain.modes[1:] for mode in flat_modes(part))]
    steps = [stride for extent, stride in outer if extent > 1]
    return math.gcd(*steps, _swizzle_run(layout))


def access_faults(
    atom: CopyAtom, layout: AnyLayout, which: str, align: int, *, promise: bool = False
) -> list[Diagnostic]:
    """What keeps `atom` from accessing a thread's part of memory, ((FrgV,FrgX),Rest...), `which` names.

    `align` in bytes is known of every access; `promise` says that strides known at run time may be why it is so little.
    Gives copy.vector and copy.alignment.
    """
    plain = layout.layout_b if isinstance(layout, ComposedLayout) else layout
    element, needed = atom.element, atom.access_bytes * BYTE_BITS // atom.element.bits
    own = coalesce(_static(plain[0, 0]))
    extent, stride = flat_modes(own)[0]
    run = extent if stride == 1 else 1
    run = math.gcd(run, _swizzle_run(layout)) if isinstance(layout, ComposedLayout) else run
    if run < needed:
        return [
            VECTOR.diagnose(
                atom=atom,
                wanted=needed,
                which=which,
                layout=plain[0, 0],
                run=run,
                nearest=_narrower(atom, run * element.bits),
            )
        ]
    if align % atom.access_bytes:
        narrower = _narrower(atom, align * BYTE_BITS)
        instead = f"take {narrower}, or begin and step at multiples of {atom.access_bytes} bytes"
        if promise:
            instead += f"; promise it of a stride known at run time: declare its parameter i32(multiple_of={needed})"
            instead += f", or k.tensor(..., multiple_of={needed})"
        return [ALIGNMENT.diagnose(atom=atom, which=which, wanted=atom.access_bytes, given=align, instead=instead)]
    return []


def _narrower(atom: CopyAtom, bits: int) -> str:
    """The widest copy of a thread of its own whose access has at most `bits` bits."""
    fitting = [each for each in UNIVERSAL_BITS if each <= bits]
    if atom.kind is CopyKind.CP_ASYNC:
        asynchronous = [each for each in fitting if 32 <= each <= 128]
        if asynchronous:
            return f"cp_async_copy({atom.element}, {asynchronous[-1]})"
    return f"universal_copy({atom.element}, {fitting[-1]})" if fitting else "another layout"
