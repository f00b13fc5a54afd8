"""The names that other compilers have for atoms of wgmma, in lower case, and what CuTe wraps an atom's name in.

`sm90_wgmma_m64n128k16_f32_f16_f16` (D, A, B, as PTX orders them) and `sm90_64x128x16_F16F16F32_SS` (A, B, D) say shape
and types alone. What they leave out is what PTX has without saying so: K-major operands, and A in shared memory.
"""

from __future__ import annotations

import re

from nvbackend.atoms.cpp_types import upper
from nvbackend.intrinsics.row.types import BY_NAME, ElementType

_SHAPE = r"(?P<m>[0-9]{{1,9}}){}(?P<n>[0-9]{{1,9}}){}(?P<k>[0-9]{{1,9}})"
_TYPES = r"(?P<{}>[a-z]+\d\w*?)_(?P<{}>[a-z]+\d\w*?)_(?P<{}>[a-z]+\d\w*?)"
_LIKE_PTX = re.compile(f"sm90_wgmma_m{_SHAPE.format('n', 'k')}_{_TYPES.format('d', 'a', 'b')}")
_TYPE = r"(?:BF16|TF32|F16|F32|E4M3|E5M2|[SU](?:32|8|4|1))"
_LIKE_CUTE = re.compile(
    f"sm90_{_SHAPE.format('x', 'x')}_(?P<a>{_TYPE})(?P<b>{_TYPE})(?P<d>{_TYPE})_(?P<operands>SS|RS)"
)
_WRAPPED = re.compile(r"MMA_(?:Atom|Traits)<(.*)>")


def unwrapped(text: str) -> str:
    """What CuTe's MMA_Atom<...> and MMA_Traits<...> are made of."""
    while (found := _WRAPPED.fullmatch(text)) is not None:
        text = found[1]
    return text


def cute_name(text: str) -> str | None:
    """CuTe's name, without blanks, of an atom of wgmma that another compiler calls `text`; None for other texts."""
    found = _LIKE_PTX.fullmatch(text) or _LIKE_CUTE.fullmatch(text)
    if found is None:
        return None
    parts = found.groupdict()
    types = [_element(parts[name]) for name in "dab"]
    if None in types:
        return None
    d, a, b = (one for one in types if one is not None)
    name = f"SM90_{parts['m']}x{parts['n']}x{parts['k']}_{upper(d)}{upper(a)}{upper(b)}_{parts.get('operands', 'SS')}"
    return name + ("<Major::K,Major::K>" if a.bits == 16 else "_TN")


def _element(text: str) -> ElementType | None:
    lower = text.lower()
    return BY_NAME.get("b1" if lower == "u1" else lower)
