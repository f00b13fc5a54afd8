"""What IR for a GPU calls and this machine lacks, as LLVM IR: transcribed from the PTX ISA, not from the builder.

cvt and its rounding: PTX ISA 9.7.9; min and max: 9.7.3; tf32: 5.2.3. `localised` gives a kernel's IR these names.
"""

from __future__ import annotations

import re

_FLOATS = {"f16": ("half", 16), "bf16": ("bfloat", 16), "f32": ("float", 32), "f64": ("double", 64)}
_INFINITY_OR_NAN = {"half": "0xH7E00", "bfloat": "0xR7FC0", "float": "0x7FF8000000000000"}
_INTEGERS = (1, 8, 16, 32, 64)
_MOVED = r"mov\.b16 \$0, \$1;"
_THROUGH_A_WORD = r"\{ \.reg \.b32 word; cvt\.u32\.u16 word, \$1; cvt\.u16\.u32 \$0, word; \}"
_SAME_HALF = rf'(?:tail )?call i16 asm "(?:{_MOVED}|{_THROUGH_A_WORD})", "=h,h"\(i16 ([^)]+)\)(?: #\d+)?'
_SAME_WORD = r'call i32 asm "prmt\.b32 \$0, \$1, 0, 0x3210;", "=r,r"\(i32 ([^)]+)\)'
"""What only keeps a value from an optimiser: 16 bits, moved, or through a word and back; the bytes of a word."""
_PACK = r'(?:tail )?call (i\d+) asm "cvt\.rn\.(?:satfinite\.)?(\w+x2)\.f32 \$0, \$1, \$2;", "=[rh],f,f"'
ROW = "host.row"
"""The global variable that stands for the thread's index."""


def localised(ir_text: str) -> str:
    """The IR of a kernel with what is of NVPTX taken out, and its intrinsics renamed to functions of `runtime`."""
    text = re.sub(r"target triple = .*|target datalayout = .*", "", ir_text).replace("ptx_kernel ", "")
    text = re.sub(r'"(nvvm\.[a-z]+|target-cpu|target-features)"="[^"]*"', "", text)
    text = re.sub(r"!nvvm\.\w+ = .*", "", text)
    text = re.sub(r"@(\"?)llvm\.(nvvm|minimum|maximum|minimumnum|maximumnum|minnum|maxnum)\.", r"@\1host.\2.", text)
    text = re.sub(_SAME_HALF, r"add i16 0, \1", text)
    text = re.sub(_SAME_WORD, r"add i32 0, \1", text)
    text = re.sub(_PACK, r"call \1 @host.\2", text)
    return re.sub(
        r"= (sitofp|uitofp)(?: nneg)? i(\d+) (\S+) to (half|bfloat)", r"= call \4 @host.\1.i\2.\4(i\2 \3)", text
    ) + _declarations(text)


def _declarations(text: str) -> str:
    packed = sorted(set(re.findall(r"call i(\d+) @host\.(\w+x2)", text)))
    used = set(re.findall(r"= (sitofp|uitofp)(?: nneg)? i(\d+) \S+ to (half|bfloat)", text))
    lines = [f"declare i{bits} @host.{pair}(float, float)" for bits, pair in packed]
    return (
        "\n"
        + "\n".join(lines)
        + "\n".join(f"declare {kind} @host.{method}.i{bits}.{kind}(i{bits})" for method, bits, kind in sorted(used))
    )


def runtime() -> str:
    """The module of these functions."""
    parts = [f"@{ROW} = global i32 0", _THREAD, _ODD, _TF32]
    parts += [_to_integer(*one) for one in _conversions()]
    parts += [_to_f32_cut(letters, bits, signed=signed) for letters, bits, signed in _cut()]
    parts += [
        _pack("f16x2", "half"),
        _pack("bf16x2", "bfloat"),
        _pack_bytes("e4m3x2", 4, 3),
        _pack_bytes("e5m2x2", 5, 2),
    ]
    parts += [_extreme(name, *one) for name in ("min", "max") for one in _FLOATS.items()]
    parts += [
        _narrow(method, bits, kind)
        for method in ("sitofp", "uitofp")
        for bits in _INTEGERS
        for kind in ("half", "bfloat")
    ]
    return "\n".join(parts)


_THREAD = f"""
define i32 @host.nvvm.read.ptx.sreg.tid.x() {{
  %row = load i32, ptr @{ROW}
  ret i32 %row
}}"""

_ODD = """
define float @host.odd(double %x) {
  %cut = call float @host.nvvm.d2f.rz(double %x)
  %back = fpext float %cut to double
  %inexact = fcmp one double %back, %x
  %last = zext i1 %inexact to i32
  %bits = bitcast float %cut to i32
  %odd = or i32 %bits, %last
  %result = bitcast i32 %odd to float
  ret float %result
}
define float @host.nvvm.d2f.rz(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %size = call double @llvm.fabs.f64(double %x)
  %found = call double @llvm.fabs.f64(double %back)
  %past = fcmp ogt double %found, %size
  %bits = bitcast float %near to i32
  %less = sub i32 %bits, 1
  %taken = select i1 %past, i32 %less, i32 %bits
  %result = bitcast i32 %taken to float
  ret float %result
}
declare double @llvm.fabs.f64(double)
define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %upper = lshr i32 %bits, 16
  %parity = and i32 %upper, 1
  %half = add i32 %parity, 32767
  %sum = add i32 %bits, %half
  %rounded = lshr i32 %sum, 16
  %nan = fcmp uno float %x, %x
  %quiet = or i32 %upper, 64
  %taken = select i1 %nan, i32 %quiet, i32 %rounded
  %short = trunc i32 %taken to i16
  %result = bitcast i16 %short to bfloat
  ret bfloat %result
}
define bfloat @__truncdfbf2(double %x) {
  %odd = call float @host.odd(double %x)
  %result = call bfloat @__truncsfbf2(float %odd)
  ret bfloat %result
}
define half @__truncdfhf2(double %x) {
  %odd = call float @host.odd(double %x)
  %result = fptrunc float %odd to half
  ret half %result
}"""

_TF32 = """
define i32 @host.nvvm.f2tf32.rna(float %x) {
  %bits = bitcast float %x to i32
  %sum = add i32 %bits, 4096
  %rounded = and i32 %sum, -8192
  %nan = fcmp uno float %x, %x
  %cut = and i32 %bits, -8192
  %result = select i1 %nan, i32 %cut, i32 %rounded
  ret i32 %result
}"""


def _conversions() -> list[tuple[str, str, int, bool]]:
    return [
        (source, letters, 64 if "ll" in letters else 32, not letters.startswith("u"))
        for source in ("f", "d")
        for letters in ("i", "ui", "ll", "ull")
    ]


def _to_integer(source: str, letters: str, bits: int, signed: bool) -> str:
    """cvt.rzi: clamped; NaN is 0 from f32 to 32 bits, and the highest bit in all other pairs."""
    kind, suffix = ("float", "f32") if source == "f" else ("double", "f64")
    method = f"llvm.fpto{'s' if signed else 'u'}i.sat.i{bits}.{suffix}"
    of_nan = 0 if source == "f" and bits == 32 else -(1 << bits - 1)
    return f"""
declare i{bits} @{method}({kind})
define i{bits} @host.nvvm.{source}2{letters}.rz({kind} %x) {{
  %whole = call i{bits} @{method}({kind} %x)
  %nan = fcmp uno {kind} %x, %x
  %result = select i1 %nan, i{bits} {of_nan}, i{bits} %whole
  ret i{bits} %result
}}"""


def _cut() -> list[tuple[str, int, bool]]:
    return [("i", 32, True), ("ui", 32, False), ("ll", 64, True), ("ull", 64, False)]


def _to_f32_cut(letters: str, bits: int, *, signed: bool) -> str:
    """cvt.rz.f32 of an integer: its highest 24 bits."""
    extend = "" if bits == 64 else f"%wide = {'s' if signed else 'z'}ext i32 %x to i64\n  "
    value = "%x" if bits == 64 else "%wide"
    size = (
        f"%minus = sub i64 0, {value}\n  %below = icmp slt i64 {value}, 0\n"
        f"  %size = select i1 %below, i64 %minus, i64 {value}"
        if signed
        else f"%below = icmp ne i64 0, 0\n  %size = add i64 {value}, 0"
    )
    return f"""
define float @host.nvvm.{letters}2f.rz(i{bits} %x) {{
  {extend}{size}
  %zeros = call i64 @llvm.ctlz.i64(i64 %size, i1 false)
  %many = sub i64 40, %zeros
  %spare = call i64 @llvm.smax.i64(i64 %many, i64 0)
  %upper = lshr i64 %size, %spare
  %cut = shl i64 %upper, %spare
  %float = uitofp i64 %cut to float
  %negative = fneg float %float
  %result = select i1 %below, float %negative, float %float
  ret float %result
}}""" + ("\ndeclare i64 @llvm.ctlz.i64(i64, i1)\ndeclare i64 @llvm.smax.i64(i64, i64)" if letters == "i" else "")


def _extreme(name: str, suffix: str, form: tuple[str, int]) -> str:
    """min and max: -0.0 is below 0.0; of NaN and a number the number, in the .NaN form NaN."""
    kind, bits = form
    order, of_zeros = ("olt", "or") if name == "min" else ("ogt", "and")
    nan = _INFINITY_OR_NAN.get(kind, "0x7FF8000000000000")
    functions = []
    for spelling in (f"{name}imumnum", f"{name}num", f"{name}imum"):
        if spelling.endswith("num"):
            choice = f"""%left = select i1 %nan.b, {kind} %a, {kind} %ordered
  %result = select i1 %nan.a, {kind} %b, {kind} %left"""
        else:
            choice = f"""%nan = or i1 %nan.a, %nan.b
  %result = select i1 %nan, {kind} {nan}, {kind} %ordered"""
        functions.append(f"""
define {kind} @host.{spelling}.{suffix}({kind} %a, {kind} %b) {{
  %first = fcmp {order} {kind} %a, %b
  %one = select i1 %first, {kind} %a, {kind} %b
  %bits.a = bitcast {kind} %a to i{bits}
  %bits.b = bitcast {kind} %b to i{bits}
  %both = {of_zeros} i{bits} %bits.a, %bits.b
  %zero = bitcast i{bits} %both to {kind}
  %equal = fcmp oeq {kind} %a, %b
  %ordered = select i1 %equal, {kind} %zero, {kind} %one
  %nan.a = fcmp uno {kind} %a, %a
  %nan.b = fcmp uno {kind} %b, %b
  {choice}
  ret {kind} %result
}}""")
    return "".join(functions)


def _pack(pair: str, kind: str) -> str:
    """cvt.rn.f16x2: the first operand goes to the upper half (PTX ISA 9.7.9)."""
    return f"""
define i32 @host.{pair}(float %high, float %low) {{
  %upper = fptrunc float %high to {kind}
  %lower = fptrunc float %low to {kind}
  %bits.upper = bitcast {kind} %upper to i16
  %bits.lower = bitcast {kind} %lower to i16
  %wide.upper = zext i16 %bits.upper to i32
  %wide.lower = zext i16 %bits.lower to i32
  %moved = shl i32 %wide.upper, 16
  %result = or i32 %moved, %wide.lower
  ret i32 %result
}}"""


def _pack_bytes(pair: str, exponent: int, mantissa: int) -> str:
    """cvt.rn.satfinite: numbers past the largest become it; nothing is asked about NaN.

    The bits of a float count up with its size, so that cutting 23 - mantissa of them, with the carry of rounding, is
    right for normal numbers; adding a power of two whose last bit is a subnormal's does it for those.
    """
    bias = (1 << exponent - 1) - 1
    largest = 0x7E if exponent == 4 else 0x7B
    spare = 23 - mantissa
    least = 1 - bias + 127  # exponent of the least normal number, as f32 has it
    adder = (least + spare) << 23  # a power of two whose last bit is worth the least subnormal number
    return f"""
define i8 @host.{pair}.one(float %x) {{
  %bits = bitcast float %x to i32
  %size = and i32 %bits, 2147483647
  %shifted = lshr i32 %bits, 24
  %sign = and i32 %shifted, 128
  %parity.bit = lshr i32 %size, {spare}
  %parity = and i32 %parity.bit, 1
  %half = add i32 %parity, {(1 << spare - 1) - 1}
  %sum = add i32 %size, %half
  %cut = lshr i32 %sum, {spare}
  %normal = sub i32 %cut, {(127 - bias) << mantissa}
  %float = bitcast i32 %size to float
  %power = bitcast i32 {adder} to float
  %added = fadd float %float, %power
  %added.bits = bitcast float %added to i32
  %subnormal = sub i32 %added.bits, {adder}
  %is.normal = icmp uge i32 %size, {least << 23}
  %rounded = select i1 %is.normal, i32 %normal, i32 %subnormal
  %past = icmp ugt i32 %rounded, {largest}
  %clamped = select i1 %past, i32 {largest}, i32 %rounded
  %signed = or i32 %clamped, %sign
  %result = trunc i32 %signed to i8
  ret i8 %result
}}
define i16 @host.{pair}(float %high, float %low) {{
  %upper = call i8 @host.{pair}.one(float %high)
  %lower = call i8 @host.{pair}.one(float %low)
  %wide.upper = zext i8 %upper to i16
  %wide.lower = zext i8 %lower to i16
  %moved = shl i16 %wide.upper, 8
  %result = or i16 %moved, %wide.lower
  ret i16 %result
}}"""


def _narrow(method: str, bits: int, kind: str) -> str:
    """An integer to a float of 16 bits, rounded once: by way of a number that is exact, or odd where it is not."""
    extend = "sext" if method == "sitofp" else "zext"
    wide = f"%wide = {extend} i{bits} %x to i64" if bits < 64 else "%wide = add i64 %x, 0"
    cut = "ll" if method == "sitofp" else "ull"
    return f"""
define {kind} @host.{method}.i{bits}.{kind}(i{bits} %x) {{
  {wide}
  %cut = call float @host.nvvm.{cut}2f.rz(i64 %wide)
  %back = call i64 @host.nvvm.f2{cut}.rz(float %cut)
  %inexact = icmp ne i64 %back, %wide
  %last = zext i1 %inexact to i32
  %bits = bitcast float %cut to i32
  %odd = or i32 %bits, %last
  %single = bitcast i32 %odd to float
  %result = fptrunc float %single to {kind}
  ret {kind} %result
}}"""
