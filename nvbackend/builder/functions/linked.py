"""Several modules of LLVM IR as one, with the functions that they share once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set

_DEFINED = re.compile(r'^define internal [^\n]*?@"([^"]+)"\([^\n]*\n\{\n.*?^\}$', re.MULTILINE | re.DOTALL)
_KERNEL = re.compile(r'^define (?!internal )[^\n]*?@"([^"]+)"\(', re.MULTILINE)
_NAME = re.compile(r'@"([^"]+)"')
_DEBUG = re.compile(r",? !(dbg|llvm\.loop) !\d+")
_SHARED, _OWN = "define linkonce_odr ", "define internal "


def linked(texts: Sequence[str]) -> str:
    """One module of all `texts`. Functions of one name and one code are one; others of one name get new names."""
    import llvmlite.binding as llvm

    kernels = {name for text in texts for name in _KERNEL.findall(text)}
    shared = _shared([_functions(text) for text in texts], kernels)
    with llvm.create_context() as context:
        whole, *others = [llvm.parse_assembly(_with_linkage(text, shared), context) for text in texts]
        for other in others:
            whole.link_in(other)
        text = str(whole)
        whole.close()
    return text.replace(_SHARED, _OWN)


def _functions(text: str) -> dict[str, str]:
    """The module's own functions by name, as texts without their places in the user's program."""
    return {match[1]: _DEBUG.sub("", match[0]) for match in _DEFINED.finditer(text)}


def _shared(modules: Sequence[Mapping[str, str]], kernels: Set[str]) -> set[str]:
    """The functions that are the same in every module that has one of that name, with all that they call.

    One with the name of a kernel is not shared: LLVM would take the kernel for it, and so it gets a new name.
    """
    by_name: dict[str, set[str]] = {}
    for functions in modules:
        for name, text in functions.items():
            by_name.setdefault(name, set()).add(text)
    same = {name for name, texts in by_name.items() if len(texts) == 1} - kernels
    while True:
        kept = {name for name in same if _called(by_name[name], by_name) <= same}
        if kept == same:
            return same
        same = kept


def _called(texts: Iterable[str], functions: Mapping[str, object]) -> set[str]:
    """The modules' own functions that are named in `texts`."""
    return {name for text in texts for name in _NAME.findall(text) if name in functions}


def _with_linkage(text: str, shared: set[str]) -> str:
    """The module with linkages by which LLVM keeps one of the functions that are `shared`."""

    def linkage(match: re.Match[str]) -> str:
        return _SHARED + match[0].removeprefix(_OWN) if match[1] in shared else match[0]

    return _DEFINED.sub(linkage, text)
