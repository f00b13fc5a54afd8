"""LLVM IR as libNVVM reads it: before sm_100 the text of LLVM 7, where a pointer has the type of what it points to.

There each pointer is one to bytes, converted where it is used. Instructions that LLVM 7 lacks are refused; flags and
attributes that it lacks only allow LLVM more, and are left out. Sums and products that may not be contracted are calls
that round on their own: nvJitLink would otherwise fuse them. Source: NVVM IR Specification 2.0; LLVM 7 Language
Reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

DATA_LAYOUT = (
    "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-"
    "v16:16:16-v32:32:32-v64:64:64-v128:128:128-n16:32:64"
)
_DEBUG = re.compile(r",? ![\w.]+ !\d+")
_COMMENT = re.compile(r"\s*;[^\"]*$")
_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|[^"]+')
_POINTER = re.compile(r"(?<![%@\w.])ptr(?: (addrspace\(\d+\)))?(?![\w.])(?: (@[\w.$]+))?")
_BFLOAT = re.compile(r"(?<![%@\w.])bfloat(?![\w.])")
_NEWER_FLAGS = re.compile(r"\b(?:(or) disjoint|(zext|uitofp) nneg|(trunc)(?: nuw| nsw)+|(icmp) samesign)\b")
_FLOAT = re.compile(
    r"^(?P<to>\s*%\S+ = )(?P<op>fadd|fsub|fmul|fdiv) (?P<flags>(?:[a-z]+ )*?)"
    r"(?P<type>float|double|half|bfloat|<2 x half>|<2 x bfloat>) (?P<a>\S+|<.*?>), (?P<b>\S+|<.*>)$"
)
_FNEG = re.compile(r"^(\s*%\S+ = )fneg (?:[a-z]+ )*(float|double|half) (\S+)$")
_ALLOCA = re.compile(r"^\s*(%\S+) = alloca (.+), align (\d+)$")
_LOAD = re.compile(r"^(\s*%\S+ = load (?:volatile )?)(.+?), (ptr(?: addrspace\(\d+\))?) (\S+?)((?:, .*)?)$")
_STORE = re.compile(r"^(\s*store (?:volatile )?)(.+), (ptr(?: addrspace\(\d+\))?) (\S+?)((?:, .*)?)$")
_ELEMENT = re.compile(
    r"^(\s*%\S+ = )getelementptr(?: inbounds| nuw| nusw)* (.+?), (ptr(?: addrspace\(\d+\))?) (\S+), (i\d+ \S+)$"
)
_GLOBAL = re.compile(
    r"^(@[\w.$]+) = .*?(?:(addrspace\(\d+\)) )?(?:global|constant) (\[.*?\]|\{.*?\}|<.*?>|\S+)(?= |,|$)"
)
_INTRINSIC_WITH_POINTER = re.compile(r"@(llvm\.[\w.]*\.p\d[\w.]*)")
_REFUSED = re.compile(r"^\s*(?:%\S+ = )?(atomicrmw|cmpxchg|fence|freeze|(?:load|store) atomic|callbr|invoke)\b")
_DECLARED = re.compile(r"^declare (.*?)(\S+|\{.*?\}|<.*?>) (@[\w.$]+)\((.*)\)(.*)$")
_ATTRIBUTE = re.compile(r"\b(?:noundef|immarg|nonnull|nocapture|returned|range\(.*?\)|captures\(\w+\)|align \d+) ?")
_GROUP = re.compile(r"^(attributes #\d+ = )\{(.*)\}$")
_ROUNDING = re.compile(r"@llvm\.nvvm\.(?:add|mul|div)\.rn\.[fd]\b")
_CHOICE = re.compile(r"(@llvm\.([su]m(?:ax|in))\.(i\d+))\(")
_RENAMED = {
    "llvm.exp2.f32": "llvm.nvvm.ex2.approx.f",
    "llvm.log2.f32": "llvm.nvvm.lg2.approx.f",
    "llvm.sqrt.f32": "llvm.nvvm.sqrt.rn.f",
    "llvm.sqrt.f64": "llvm.nvvm.sqrt.rn.d",
    "llvm.maximumnum.f32": "llvm.nvvm.fmax.f",
    "llvm.minimumnum.f32": "llvm.nvvm.fmin.f",
    "llvm.maximumnum.f64": "llvm.nvvm.fmax.d",
    "llvm.minimumnum.f64": "llvm.nvvm.fmin.d",
    **{
        f"llvm.{name}.f{bits}": f"llvm.nvvm.{own}.{letter}"
        for bits, letter in ((32, "f"), (64, "d"))
        for name, own in (("fabs", "fabs"), ("trunc", "trunc"), ("floor", "floor"), ("ceil", "ceil"), ("rint", "round"))
    },
}
"""Intrinsics that libNVVM has under the name of the machine's instruction."""
_COPYSIGN = "llvm.copysign.f32"
_COPYSIGN_DEFINED = """define internal float @llvm_copysign_f32(float %a, float %b) alwaysinline {
  %i = bitcast float %a to i32
  %j = bitcast float %b to i32
  %size = and i32 %i, 2147483647
  %sign = and i32 %j, -2147483648
  %bits = or i32 %size, %sign
  %r = bitcast i32 %bits to float
  ret float %r
}"""
_KEPT = ("convergent", "noinline", "alwaysinline", "nounwind")
_LETTERS = {"float": "f", "double": "d"}
_HALVES = {
    "half": ("i16", "h", "f16"),
    "<2 x half>": ("i32", "r", "f16x2"),
    "bfloat": ("i16", "h", "bf16"),
    "<2 x bfloat>": ("i32", "r", "bf16x2"),
}
_CHOICES = {"smax": "sgt", "smin": "slt", "umax": "ugt", "umin": "ult"}


class UnsupportedError(Exception):
    """An instruction that LLVM 7 lacks."""


def module_for_nvvm(text: str, version: tuple[int, int], *, typed: bool) -> str:
    """A module of today's LLVM, as LLVM prints it, in the form that libNVVM reads; `typed` is that of LLVM 7.

    Raises UnsupportedError.
    """
    lines = [_without_metadata(line) for line in text.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("!", ";", "target ", "source_filename"))]
    kept = [each for line in kept for each in _rounded(_renamed(line), typed=typed)]
    kept = [*_declarations(kept), *kept]
    if any("denormal-fp-math" in line for line in kept):
        raise UnsupportedError("its numbers flush denormals to zero, which nvJitLink decides for all that it links")
    if typed:
        kept = list(_typed(kept))
    head = [f'target datalayout = "{DATA_LAYOUT}"', 'target triple = "nvptx64-nvidia-cuda"']
    return "\n".join([*head, *kept, "!nvvmir.version = !{!0}", f"!0 = !{{i32 {version[0]}, i32 {version[1]}}}", ""])


def _without_metadata(line: str) -> str:
    """Without places of the source and hints to loops, which refer to them."""
    return _COMMENT.sub("", _outside_strings(line, lambda piece: _DEBUG.sub("", piece))).rstrip()


def _renamed(line: str) -> str:
    """With libNVVM's names of intrinsics, or a definition of what it has no intrinsic for."""
    if f"@{_COPYSIGN}(" in line:
        return _COPYSIGN_DEFINED if line.startswith("declare") else line.replace(_COPYSIGN, "llvm_copysign_f32")
    for old, new in _RENAMED.items():
        line = line.replace(f"@{old}(", f"@{new}(")
    return line


def _outside_strings(line: str, change: Callable[[str], str]) -> str:
    return "".join(piece if piece.startswith('"') else change(piece) for piece in _PIECES.findall(line))


def _rounded(line: str, *, typed: bool) -> Iterator[str]:
    """A sum, product or quotient as a call that rounds by itself, unless it may be contracted."""
    match = _FLOAT.match(line)
    if match is None or {"contract", "fast"} & set(match["flags"].split()):
        yield line
        return
    to, kind, a, b = match["to"], match["type"], match["a"], match["b"]
    name = to.split()[0]
    operation = match["op"][1:]
    if kind in _HALVES:
        is_plain = operation == "div" or (typed and "bfloat" in kind)  # of the second LLVM 7 has nothing
        yield from [line] if is_plain else _rounded_half(name, operation, kind, a, b)
        return
    if operation == "sub":
        negated = f"fsub {kind} -0.000000e+00, {b}" if typed else f"fneg {kind} {b}"
        yield f"  {name}.neg = {negated}"
        operation, b = "add", f"{name}.neg"
    intrinsic = f"@llvm.nvvm.{operation}.rn.{_LETTERS[kind]}"
    yield f"{to}call {kind} {intrinsic}({kind} {a}, {kind} {b})"


def _rounded_half(name: str, operation: str, kind: str, a: str, b: str) -> Iterator[str]:
    bits, letter, suffix = _HALVES[kind]
    for which, value in (("a", a), ("b", b)):
        yield f"  {name}.{which} = bitcast {kind} {value} to {bits}"
    call = f'call {bits} asm "{operation}.rn.{suffix} $0, $1, $2;", "={letter},{letter},{letter}"'
    yield f"  {name}.r = {call}({bits} {name}.a, {bits} {name}.b)"
    yield f"  {name} = bitcast {bits} {name}.r to {kind}"


def _declarations(lines: list[str]) -> Iterator[str]:
    """Of the intrinsics that round by themselves, where the module lacks them."""
    body = "\n".join(lines)
    for name in sorted(set(_ROUNDING.findall(body))):
        if not re.search(rf"^declare .*{re.escape(name)}\(", body, re.MULTILINE):
            kind = "float" if name.endswith("f") else "double"
            yield f"declare {kind} {name}({kind}, {kind})"


def _typed(lines: list[str]) -> Iterator[str]:
    globals_ = {match[1]: (match[3], match[2] or "") for line in lines if (match := _GLOBAL.match(line))}
    chosen = _CHOICE.findall("\n".join(line for line in lines if line.startswith("declare")))
    for number, line in enumerate(lines):
        refused = _REFUSED.match(line)
        if refused is not None:
            raise UnsupportedError(f"it has {refused[1]}")
        for each in _typed_line(line if line.startswith("declare") else _with_choices(line, chosen), number):
            yield _outside_strings(each, lambda piece: _typed_pointers(piece, globals_))


def _with_choices(line: str, chosen: list[tuple[str, str, str]]) -> str:
    for name, operation, kind in chosen:
        line = line.replace(f"{name}(", f"@llvm_{operation}_{kind}(")
    return line


def _typed_line(line: str, number: int) -> Iterator[str]:
    """The line with conversions of its pointers around it; their types are still those of today."""
    line = _outside_strings(line, lambda piece: _NEWER_FLAGS.sub(lambda m: next(filter(None, m.groups())), piece))
    with_pointer = _INTRINSIC_WITH_POINTER.search(line)
    if with_pointer is not None:
        raise UnsupportedError(f"it has {with_pointer[1]}")
    if (match := _ALLOCA.match(line)) is not None:
        name, kind, align = match.groups()
        yield f"  {name}.t = alloca {kind}, align {align}"
        yield f"  {name} = bitcast {_pointed(kind)} {name}.t to ptr"
    elif (match := _LOAD.match(line)) is not None:
        start, kind, pointer, place, rest = match.groups()
        name = start.split()[0]
        yield f"  {name}.p = bitcast {pointer} {place} to {_pointed(kind, pointer)}"
        yield f"{start}{kind}, {_pointed(kind, pointer)} {name}.p{rest}"
    elif (match := _STORE.match(line)) is not None:
        yield from _stored(*match.groups(), name=f"%stored.{number}")
    elif (match := _ELEMENT.match(line)) is not None:
        start, kind, pointer, place, index = match.groups()
        if kind == "i8":
            yield f"{start}getelementptr i8, {pointer} {place}, {index}"
            return
        name = start.split()[0]
        yield f"  {name}.p = bitcast {pointer} {place} to {_pointed(kind, pointer)}"
        yield f"  {name}.q = getelementptr {kind}, {_pointed(kind, pointer)} {name}.p, {index}"
        yield f"{start}bitcast {_pointed(kind, pointer)} {name}.q to {pointer}"
    elif (match := _FNEG.match(line)) is not None:
        yield f"{match[1]}fsub {match[2]} -0.000000e+00, {match[3]}"
    elif (match := _GROUP.match(line)) is not None:
        words = [word for word in _KEPT if word in match[2].split()]
        words += ["readnone"] if "memory(none)" in match[2] else []
        yield f"{match[1]}{{ {' '.join(words)} }}"
    elif (match := _DECLARED.match(line)) is not None:
        yield from _declared(match)
    else:
        yield line


def _stored(start: str, stored: str, pointer: str, place: str, rest: str, *, name: str) -> Iterator[str]:
    """A store, with its address converted into `name`."""
    kind = _pointed(stored[: _end_of_type(stored)], pointer)
    yield f"  {name} = bitcast {pointer} {place} to {kind}"
    yield f"{start}{stored}, {kind} {name}{rest}"


def _declared(match: re.Match[str]) -> Iterator[str]:
    """A declaration; of what LLVM 7 lacks and can be said otherwise, a definition."""
    _, kind, name, parameters, rest = match.groups()
    choice = _CHOICE.match(f"{name}(")
    if choice is not None:
        operation = choice[2]
        yield f"define internal {kind} @llvm_{operation}_{kind}({kind} %a, {kind} %b) alwaysinline {{"
        yield f"  %c = icmp {_CHOICES[operation]} {kind} %a, %b"
        yield f"  %r = select i1 %c, {kind} %a, {kind} %b"
        yield f"  ret {kind} %r"
        yield "}"
        return
    yield f"declare {kind} {name}({_ATTRIBUTE.sub('', parameters)}){rest}"


def _end_of_type(text: str) -> int:
    """Where the type at the beginning of an operand ends."""
    closing = {"{": "}", "[": "]", "<": ">"}.get(text[0])
    if closing is None:
        return text.index(" ")
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == text[0]) - (letter == closing)
        if depth == 0:
            return place + 1
    return len(text)


def _pointed(kind: str, pointer: str = "ptr") -> str:
    """The pointer to this type in the space of `pointer`."""
    space = pointer.removeprefix("ptr").strip()
    return f"{kind} {space}*" if space else f"{kind}*"


def _typed_pointers(piece: str, globals_: dict[str, tuple[str, str]]) -> str:
    """Every pointer as one to bytes; variables of the module are converted."""
    return _BFLOAT.sub("i16", _POINTER.sub(lambda match: _of_bytes(match, globals_), piece))


def _of_bytes(match: re.Match[str], globals_: dict[str, tuple[str, str]]) -> str:
    space, name = match[1] or "", match[2]
    kind = f"i8 {space}*" if space else "i8*"
    if name is None:
        return kind
    if name not in globals_:
        raise UnsupportedError(f"it uses the address of {name[1:]}")
    own, own_space = globals_[name]
    own_kind = f"{own} {own_space}*" if own_space else f"{own}*"
    return f"{kind} bitcast ({own_kind} {name} to {kind})"
