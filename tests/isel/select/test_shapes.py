"""Names of instruction shapes, and what to write in place of another text."""

import pytest

import nvbackend as nvb
from nvbackend.isel.select.shapes import shape_extents


@pytest.mark.parametrize(
    ("given", "like"),
    [("16x8x16", "m16n8k16"), ("m16n8", "m64n256k16"), ("m16n8k16x4", "m64n256k16"), (16, "m64n256k16")],
)
def test_what_to_write_is_as_near_as_it_can_be(given: object, like: str) -> None:
    with pytest.raises(nvb.DiagnosticError) as refused:
        shape_extents(given)  # type: ignore[arg-type]
    (found,) = refused.value.diagnostics
    assert found.fix == f'write it as PTX does: "{like}"'
