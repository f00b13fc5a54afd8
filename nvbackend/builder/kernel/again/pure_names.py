"""What a kernel's function may use without reading anything that changes: modules, functions and attributes by name."""

from __future__ import annotations

import ast
import functools
import types

PACKAGE = __name__.partition(".")[0]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TRUSTED = _words(
    """
    abc bisect _bisect collections collections.abc _collections_abc contextlib copy dataclasses enum fractions
    functools _functools heapq _heapq itertools math numbers operator _operator string struct _struct textwrap
    typing types
    """
)
"""Modules of Python's library whose functions read nothing that changes."""
BY_NAME = _words(
    """
    getattr hasattr setattr delattr attrgetter methodcaller format format_map vars dir
    vformat get_field __getattribute__ __getstate__ __reduce__ __reduce_ex__ __dir__
    """
)
"""Functions and methods that read attributes whose names appear in no code: what they read of a module is unknown."""
NOT_FOLLOWED = _words(
    """
    __dict__ __globals__ __closure__ __code__ __builtins__ __subclasses__ __wrapped__ __self__ __func__ __loader__
    __spec__ gi_frame cr_frame ag_frame tb_frame f_back f_builtins f_globals f_locals
    __annotate__ get_type_hints get_annotations ForwardRef evaluate_forward_ref _evaluate _eval_type
    __forward_value__ __forward_evaluated__ __orig_bases__ __parameters__ get_original_bases
    """
)
"""Attributes through which code reaches what it does not name; functions and classes that evaluate text."""

PURE = _words(
    """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex dict divmod enumerate filter float
    format frozenset hash hex int isinstance issubclass iter len list map max min next oct object ord pow property
    range repr reversed round set slice sorted staticmethod str sum super tuple type zip __build_class__
    NoneType NotImplementedType ellipsis function method builtin_function_or_method
    """
)
"""Python's own functions and types whose results follow from their arguments."""

OF_EVERY_CLASS = _words(
    """
    __dict__ __weakref__ __module__ __qualname__
    __parameters__ __orig_bases__ __abstractmethods__ _abc_impl __static_attributes__
    __firstlineno__ __annotate__ __annotate_func__ __annotations_cache__
    """
)
"""What every class has that is not its content, or that only repeats it."""
NOT_SET = _words(
    """
    __doc__ __annotations__ __dataclass_fields__ __dataclass_params__ __slotnames__ _abc_impl __match_args__ __slots__
    """
)
"""What classes of ours have besides, which class statements and decorators of Python's set."""


def is_trusted(module: object) -> bool:
    """Whether a module of this name is this package's or one of those that read nothing that changes."""
    return isinstance(module, str) and (module in TRUSTED or module.partition(".")[0] == PACKAGE)


@functools.lru_cache(256)
def code_of(annotation: str) -> types.CodeType:
    """The code of an annotation that is text. Raises what `compile` does."""
    return compile(unquoted(annotation), "<annotation>", "eval")


def unquoted(annotation: str) -> str:
    """The text of an annotation, also of one in quotes that PEP 563 quotes once more."""
    if "'" not in annotation and '"' not in annotation:
        return annotation
    try:
        inside = ast.literal_eval(annotation)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return annotation
    return unquoted(inside) if isinstance(inside, str) else annotation
