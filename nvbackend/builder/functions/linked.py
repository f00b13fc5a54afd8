"""Several modules of LLVM IR as one, with the functions that they share once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set

from nvbackend.codegen.stages.inlined import moved

_DEFINED = re.compile(r'^define internal [^\n]*?@"([^"]+)"\([^\n]*\n\{\n.*?^\}$', re.MULTILINE | re.DOTALL)
_KERNEL = re.compile(r'^define (?!internal )[^\n]*?@"([^"]+)"\(', re.MULTILINE)
_NAME = re.compile(r'@"([^"]+)"')
_DEBUG = re.compile(r",? !(dbg|llvm\.loop) !\d+")
_FOREIGN = re.compile(r'^module asm "[^\n]*" ; (\S+)\n', re.MULTILINE)
_SHARED, _OWN = "define linkonce_odr ", "define internal "


def module_asm(name: str, text: str) -> str:
    """PTX that defines `name` as one line of a module."""
    escaped = "".join(
        chr(each) if 32 <= each < 127 and chr(each) not in '"\\' else f"\\{each:02X}" for each in text.encode()
    )
    return f'module asm "{escaped}" ; {name}'


def foreign_clash(texts: Sequence[str]) -> str | None:
    """A name that foreign PTX of one of `texts` gives to something else than another text does; None for none."""
    known: dict[str, str] = {}
    for text in texts:
        for match in _FOREIGN.finditer(text):
            if known.setdefault(match[1], match[0]) != match[0]:
                return match[1]
    own = {name for text in texts for name in (*_functions(text), *_KERNEL.findall(text))}
    return next((name for name in known if name in own), None)


def _foreign_once(texts: Sequence[str]) -> list[str]:
    """The texts, each piece of foreign PTX in the first that has it alone."""
    seen: set[str] = set()

    def kept(match: re.Match[str]) -> str:
        is_new = match[0] not in seen
        seen.add(match[0])
        return match[0] * is_new

    return [_FOREIGN.sub(kept, text) for text in texts]


def linked(texts: Sequence[str]) -> str:
    """One module of all `texts`. Functions of one name and one code are one; others of one name get new names."""
    import llvmlite.binding as llvm

    texts = _with_keys(_foreign_once(texts))
    kernels = {name for text in texts for name in _KERNEL.findall(text)}
    shared = _shared([_functions(text) for text in texts], kernels)
    with llvm.create_context() as context:
        whole, *others = [llvm.parse_assembly(_with_linkage(text, shared), context) for text in texts]
        for other in others:
            whole.link_in(other)
        text = str(whole)
        whole.close()
    return text.replace(_SHARED, _OWN)


def _with_keys(texts: Sequence[str]) -> list[str]:
    """The texts, each with other keys of lines and their callers than those before it."""
    count, others = 0, list[str]()
    for text in texts:
        other, more = moved(text, count)
        others.append(other)
        count += more
    return others


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
