"""k.math: extremes, rounding, fused products, roots, powers, waves, packing."""

from __future__ import annotations

from nvbackend.builder.core.instructions import result
from nvbackend.builder.core.variables import pair_of, select
from nvbackend.builder.ops.math.emission import Emission
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.copy import matrix_move
from nvbackend.intrinsics.row.types import bf16, f16, f32, f64
from nvbackend.isel.target.target import variant


@user_facing
class Math(Emission):
    """Mathematics of floats (PTX ISA 9.7.3, 9.7.4).

    f16 and bf16 are computed in f32 and rounded, unless a call says that the machine has it for them. `approx` and
    `ftz` that are left out are those of the kernel's `math=` (nvb.MathPolicy); an argument that a form of a function
    has no use for is refused (call.no-effect, instruction.variant). Accurate functions give the same bits on every GPU
    and in the simulator; the errors are in units in the last place (ulp) of f32, whose subnormal numbers are exact
    unless the kernel's math policy flushes them. Of f64 every function is accurate, whatever the policy, to as many ulp
    of f64 as are stated; `approx=True` is refused (value.operation).
    """

    __noun__ = "math"
    __usual__ = "sqrt"

    def pack_pair(self, pair: str, high: Operand, low: Operand, *, relu: bool = False) -> Value:
        """cvt.rn: two f32 to a pair ("f16x2", "bf16x2": u32; "e4m3x2", "e5m2x2": u16), `low` in the lower half.

        `relu` makes negative values zero. Raises instruction.variant, target.feature. PTX ISA 9.7.9 (cvt).
        """
        return result(self._k, variant("cvt", matrix_move.pack, pair, relu), high=high, low=low)

    def permute_bytes(self, low: Operand, high: Operand, selector: Operand) -> Value:
        """prmt: four bytes (u32) out of `low` (bytes 0 to 3) and `high` (4 to 7), picked by the nibbles of `selector`.

        Bit 3 of a nibble replicates the byte's sign. PTX ISA 9.7.9 (prmt).
        """
        return result(self._k, matrix_move.prmt(), low=low, high=high, selector=selector)

    # -- extremes and signs -------------------------------------------------------------------------------------------

    def min(self, left: Operand, right: Operand, *, nan: bool = False, ftz: bool | None = None) -> Value:
        """The lesser of two values of one type: -0.0 is less than 0.0, and a number wins over NaN.

        With `nan`, NaN where either is NaN (min.NaN: f16, bf16 and f32, from sm_80 on; target.feature). `ftz`: of f32
        and f16, subnormal numbers are 0. Integers take neither (call.no-effect). PTX ISA 9.7.3.
        """
        return self._extreme("min", left, right, nan=nan, ftz=ftz)

    def max(self, left: Operand, right: Operand, *, nan: bool = False, ftz: bool | None = None) -> Value:
        """The greater of two values of one type: 0.0 is greater than -0.0, and a number wins over NaN.

        With `nan`, NaN where either is NaN (max.NaN: f16, bf16 and f32, from sm_80 on; target.feature). `ftz`: of f32
        and f16, subnormal numbers are 0. Integers take neither (call.no-effect). PTX ISA 9.7.3.
        """
        return self._extreme("max", left, right, nan=nan, ftz=ftz)

    def abs(self, value: Operand) -> Value:
        """The absolute value; the lowest integer stays as it is. PTX ISA 9.7.1, 9.7.3 (abs)."""
        operand = as_value(self._k, value)
        if operand.type.is_integer:
            return select(self._k, operand < 0, -operand, operand) if operand.type.is_signed else operand
        return self._native("fabs", operand)

    def copysign(self, size: Operand, sign: Operand) -> Value:
        """`size` with the sign of `sign`, two floats of one type. PTX ISA 9.7.3 (copysign)."""
        return self._native("copysign", *pair_of(self._k, "copysign", size, sign))

    # -- rounding to integers -----------------------------------------------------------------------------------------

    def floor(self, value: Operand) -> Value:
        """The largest integer that is at most `value`, as a float of its type. PTX ISA 9.7.9 (cvt.rmi)."""
        return self._native("floor", value)

    def ceil(self, value: Operand) -> Value:
        """The least integer that is at least `value`, as a float of its type. PTX ISA 9.7.9 (cvt.rpi)."""
        return self._native("ceil", value)

    def trunc(self, value: Operand) -> Value:
        """`value` without its fraction, as a float of its type. PTX ISA 9.7.9 (cvt.rzi)."""
        return self._native("trunc", value)

    def rint(self, value: Operand) -> Value:
        """The integer nearest to `value`, the even one of two, as a float of its type. PTX ISA 9.7.9 (cvt.rni)."""
        return self._native("roundeven", value, name="rint")

    # -- with one rounding --------------------------------------------------------------------------------------------

    def add(
        self, a: Operand, b: Operand, *, rounding: str = "rn", ftz: bool | None = None, saturate: bool = False
    ) -> Value:
        """a + b, never contracted with another operation; the arguments are those of `fma`. PTX ISA 9.7.3 (add)."""
        return self._rounded("add", rounding, ftz, saturate, False, *pair_of(self._k, "add", a, b))

    def sub(
        self, a: Operand, b: Operand, *, rounding: str = "rn", ftz: bool | None = None, saturate: bool = False
    ) -> Value:
        """a - b, never contracted with another operation; the arguments are those of `fma`. PTX ISA 9.7.3 (sub)."""
        return self._rounded("sub", rounding, ftz, saturate, False, *pair_of(self._k, "sub", a, b))

    def mul(
        self, a: Operand, b: Operand, *, rounding: str = "rn", ftz: bool | None = None, saturate: bool = False
    ) -> Value:
        """a * b, never contracted with another operation; the arguments are those of `fma`. PTX ISA 9.7.3 (mul)."""
        return self._rounded("mul", rounding, ftz, saturate, False, *pair_of(self._k, "mul", a, b))

    def fma(
        self,
        a: Operand,
        b: Operand,
        c: Operand,
        *,
        rounding: str = "rn",
        ftz: bool | None = None,
        saturate: bool = False,
        relu: bool = False,
    ) -> Value:
        """a * b + c with one rounding, of f16, bf16 (sm_80 and later), f32 or f64.

        `rounding`: to nearest even ("rn"), and of f32 and f64 towards zero ("rz"), down ("rm") or up ("rp"). Of f32 and
        f16 `ftz` makes subnormal operands and results 0, and `saturate` clamps to 0 to 1. `relu` (f16 and bf16, sm_80
        and later) makes negative results 0. Raises instruction.variant, target.feature. PTX ISA 9.7.3, 9.7.4 (fma).
        """
        x, y = pair_of(self._k, "fma", a, b)
        return self._rounded("fma", rounding, ftz, saturate, relu, x, y, as_value(self._k, c, x.type))

    def divide(
        self,
        a: Operand,
        b: Operand,
        *,
        approx: bool | None = None,
        rounding: str | None = None,
        ftz: bool | None = None,
    ) -> Value:
        """a / b, rounded once: to nearest even, or by `rounding` as in `fma`.

        `approx`, not of f64: div.full, at most 2 ulp off. A `rounding` goes before the kernel's policy. Raises
        call.no-effect for both, instruction.variant. PTX ISA 9.7.3 (div).
        """
        x, y = pair_of(self._k, "divide", a, b)
        form = "full" if self._approximates("divide", x, approx, rounding) else rounding or "rn"
        return self._machine("div", form, ftz, x, y, name="divide")

    def sqrt(
        self, value: Operand, *, approx: bool | None = None, rounding: str | None = None, ftz: bool | None = None
    ) -> Value:
        """The square root of `value`, rounded once: to nearest even, or by `rounding` as in `fma`.

        `approx`, not of f64: at most 1 ulp off. A `rounding` goes before the kernel's policy. Raises call.no-effect for
        both, instruction.variant. PTX ISA 9.7.3 (sqrt).
        """
        operand = as_value(self._k, value)
        if self._approximates("sqrt", operand, approx, rounding):
            return self._machine("sqrt", "approx", ftz, operand)
        if rounding in (None, "rn") and ftz is None and operand.type is f32:
            return self._native("sqrt", operand)
        return self._machine("sqrt", rounding or "rn", ftz, operand)

    def rsqrt(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """One over the square root of `value`: rsqrt.approx, at most 2 ulp off.

        With approx=False the reciprocal of the root, each rounded once: at most 1.5 ulp off. PTX ISA 9.7.3 (rsqrt).
        """
        operand = as_value(self._k, value)
        if approx is None or approx or operand.type not in (f16, bf16, f32, f64):
            return self._machine("rsqrt", "approx", ftz, operand)
        wide = operand.to(f32) if operand.type in (f16, bf16) else operand
        return self.reciprocal(self.sqrt(wide, approx=False, ftz=ftz), approx=False, ftz=ftz).to(operand.type)

    def reciprocal(
        self, value: Operand, *, approx: bool | None = None, rounding: str | None = None, ftz: bool | None = None
    ) -> Value:
        """One over `value`: rcp.approx.ftz, at most 1 ulp off; subnormal numbers count as 0 unless ftz=False.

        With approx=False, with a `rounding` as of `fma`, and of f64 unless approx=True (off by 2**-20), it is rounded
        once. Raises call.no-effect for a rounding with approx=True, instruction.variant. PTX ISA 9.7.3 (rcp).
        """
        operand = as_value(self._k, value)
        self._rounds("reciprocal", approx, rounding)
        if (approx is not None and not approx) or rounding is not None or (operand.type is f64 and not approx):
            return self._machine("rcp", rounding or "rn", ftz, operand, name="reciprocal")
        return self._machine("rcp", "approx", ftz is None or ftz, operand, name="reciprocal")

    # -- exponentials and logarithms ----------------------------------------------------------------------------------

    def exp(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """e to the `value`, at most 1.1 ulp off.

        `approx`: ex2.approx of the product with log2(e), off by 2 + 1.2 |value| ulp; `ftz` is of that, and the accurate
        form flushes as the kernel does (else call.no-effect). PTX ISA 9.7.3 (ex2).
        """

        def fast(x: Value) -> Value:
            return self._exponential(x, ftz)

        return self._function("exp", value, "exp", fast if self._approx(approx) else None, ftz=ftz, approx=approx)

    def exp2(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """2 to the `value`: ex2.approx, off by 2**-22 of it; with approx=False at most 1.1 ulp.

        With approx=True f16 (sm_75 and later) and bf16 (sm_90 and later) are the machine's own, off by 2**-9.9 and
        2**-7 of the result; they keep (f16) or flush (bf16) subnormal numbers. `ftz` else as of `exp`. PTX ISA 9.7.3,
        9.7.4 (ex2).
        """
        if approx and (operand := as_value(self._k, value)).type in (f16, bf16):
            return self._machine("ex2", "approx", operand.type is bf16 if ftz is None else ftz, operand)

        def fast(x: Value) -> Value:
            return self._native("exp2", x) if ftz is None else self._machine("ex2", "approx", ftz, x)

        chosen = fast if approx is None or approx else None
        return self._function("exp2", value, "exp2", chosen, ftz=ftz, approx=approx)

    def log(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """The natural logarithm of `value`, at most 1 ulp off; NaN for negative numbers.

        `approx`: lg2.approx times ln(2), off by 2**-22 for values from 0.5 to 2, else by 3 ulp; `ftz` as of `exp`. PTX
        ISA 9.7.3 (lg2).
        """
        return self._logarithm("log", "e", value, fast_unless_said=False, approx=approx, ftz=ftz)

    def log2(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """The logarithm of `value` to base 2: lg2.approx, off by 2**-22 for values from 0.5 to 2, else by 2**-22 of it.

        With approx=False at most 1.2 ulp off; `ftz` as of `exp`. PTX ISA 9.7.3 (lg2).
        """
        return self._logarithm("log2", "2", value, fast_unless_said=True, approx=approx, ftz=ftz)

    def log10(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """The logarithm of `value` to base 10, at most 1.1 ulp off.

        `approx`: lg2.approx times log10(2), off by 2**-23 for values from 0.5 to 2, else by 3 ulp; `ftz` as of `exp`.
        PTX ISA 9.7.3 (lg2).
        """
        return self._logarithm("log10", "10", value, fast_unless_said=False, approx=approx, ftz=ftz)

    def pow(self, base: Operand, exponent: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """`base` to the power of `exponent`, at most 1.3 ulp off, with C's results for 0, 1, infinity and NaN.

        `approx`: ex2.approx of lg2.approx times the exponent: NaN of negative bases, and its error grows with the size
        of the exponent of 2; `ftz` as of `exp`. PTX ISA 9.7.3 (lg2, ex2).
        """
        x, y = pair_of(self._k, "pow", base, exponent)

        def fast(a: Value, b: Value) -> Value:
            return self._machine("ex2", "approx", ftz, self._product(self._machine("lg2", "approx", ftz, a), b, ftz))

        return self._function("pow", x, "power", fast if self._approx(approx) else None, y, ftz=ftz, approx=approx)

    # -- waves and activations ----------------------------------------------------------------------------------------

    def sin(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """The sine of `value` radians, at most 1.1 ulp off for every finite value.

        `approx`: sin.approx, off by 2**-20.5 from -pi to pi, and by more outside; `ftz` as of `exp`. PTX ISA 9.7.3
        (sin).
        """
        return self._wave("sin", value, approx, ftz)

    def cos(self, value: Operand, *, approx: bool | None = None, ftz: bool | None = None) -> Value:
        """The cosine of `value` radians, at most 1.1 ulp off for every finite value.

        `approx`: cos.approx, off by 2**-20.5 from -pi to pi, and by more outside; `ftz` as of `exp`. PTX ISA 9.7.3
        (cos).
        """
        return self._wave("cos", value, approx, ftz)

    def tanh(self, value: Operand, *, approx: bool | None = None) -> Value:
        """The hyperbolic tangent of `value`, at most 1.4 ulp off (f64: 2.5).

        `approx`: tanh.approx (sm_75 and later), off by 2**-11 of the result; with approx=True f16 and bf16 (sm_90 and
        later) are the machine's own, off by 2**-10.987 and 2**-8. PTX ISA 9.7.3, 9.7.4 (tanh).
        """
        if approx and (operand := as_value(self._k, value)).type in (f16, bf16):
            return self._machine("tanh", "approx", None, operand)

        def fast(x: Value) -> Value:
            return self._machine("tanh", "approx", None, x)

        return self._function("tanh", value, "tanh", fast if self._approx(approx) else None, approx=approx)

    def erf(self, value: Operand) -> Value:
        """The error function of `value`, at most 1.1 ulp off (f64: 1.5)."""
        return self._function("erf", value, "erf", None)

    def sigmoid(self, value: Operand, *, approx: bool | None = None) -> Value:
        """1 / (1 + exp(-value)), at most 2.5 ulp off.

        `approx`: of ex2.approx and rcp.approx.ftz, off by 5 + 1.2 |value| ulp; 0 below -87.
        """
        chosen = self._sigmoid if self._approx(approx) else None
        return self._function("sigmoid", value, "sigmoid", chosen, approx=approx)

    def silu(self, value: Operand, *, approx: bool | None = None) -> Value:
        """`value` times its sigmoid, at most 4 ulp off, with `approx` as far as `sigmoid`; NaN of minus infinity."""
        chosen = self._silu if self._approx(approx) else None
        return self._function("silu", value, "silu", chosen, approx=approx)

    def gelu(self, value: Operand, *, form: str | None = None, approx: bool | None = None) -> Value:
        """value * (1 + erf(value / sqrt(2))) / 2, off by 2**-23 of `value` (f64: 2**-51) at most; NaN of -infinity.

        `form` "tanh": the usual approximation of it, value * (1 + tanh(sqrt(2 / pi) (value + 0.044715 value**3))) / 2,
        as a product with a sigmoid, off by at most 2**-21 of `value`. `approx`: that form with the sigmoid of `approx`;
        `form` "erf" has none (call.no-effect), and is accurate whatever the kernel's policy, as f64 is.
        """
        if form not in (None, "erf", "tanh"):
            rules.UNSUPPORTED_OPERATION.fail(
                operation=f"k.math.gelu(form={form!r})", element=f32, advice='use "erf" or "tanh"'
            )
        if form == "erf" and approx:
            rules.NO_EFFECT.fail(
                argument='form="erf"',
                call="k.math.gelu(approx=True)",
                reason='the approximation is of the form "tanh"',
                advice="leave out form, or approx=True",
            )
        operand = as_value(self._k, value)
        if form != "erf" and (approx or (operand.type is not f64 and self._approx(approx))):
            return self._function("gelu", operand, "gelu_tanh", self._gelu, approx=approx)
        return self._function("gelu", operand, "gelu_tanh" if form == "tanh" else "gelu", None)
