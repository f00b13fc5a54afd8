"""Annotations that are not types of a kernel's parameters: for definitions, which load nothing else of the builder."""

from __future__ import annotations

from nvbackend.builder.scopes import rules
from nvbackend.diagnostics import Diagnostic, element_name
from nvbackend.diagnostics.classes.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Unresolved:
    """An annotation that is a text (PEP 563), and the `missing` name in it."""

    text: str
    missing: str


def not_a_type(kernel: str, name: object, annotation: object) -> Diagnostic:
    """The diagnostic for an annotation that is not the type of a parameter, or for a missing annotation (None)."""
    meant = element_name(getattr(annotation, "__name__", "")) or "an element type (nvb.i32)"
    problem = f"has the annotation {annotation!r}, which is not a kernel parameter type"
    advice = (
        f"annotate it with {meant}, nvb.Pointer[element] or Annotated[nvb.TensorMap, nvb.TensorMap(element, box)]; "
        "give build-time constants a default and make them keyword-only"
    )
    if annotation is None:
        problem = "has no annotation"
    if isinstance(annotation, Unresolved):
        missing = annotation.missing
        problem = f"has the annotation {annotation.text!r}, a text in which the name {missing} is not known"
        advice = (
            f"define or import {missing} at the top of the file; if it is a local name of the function around the "
            "kernel, remove `from __future__ import annotations` or the quotes, which make texts of annotations"
        )
    return rules.PARAMETER_TYPE.diagnose(name=name, kernel=kernel, problem=problem, advice=advice)
