"""k.integer: bits counted, moved and combined, and products, sums and differences that operators do not give."""

from __future__ import annotations

from nvbackend.builder.core.instructions import all_computed, computed
from nvbackend.builder.core.noun import Noun
from nvbackend.builder.core.variables import pair_of, select
from nvbackend.builder.lower.conversions import known_number
from nvbackend.builder.scopes import rules
from nvbackend.builder.values.values import Operand, Value, as_value
from nvbackend.diagnostics import user_facing
from nvbackend.intrinsics.arithmetic import integers
from nvbackend.intrinsics.row.types import BY_NAME, ElementType, s32
from nvbackend.isel.target.target import variant


@user_facing
class IntegerOperations(Noun):
    """Integer instructions that no operator is (PTX ISA 9.7.1, 9.7.2, 9.7.8).

    Values are s32, u32, s64 or u64 unless a call says otherwise; other types raise value.operation. The analyses of a
    build compute them of thread ids and other numbers that they know.
    """

    __noun__ = "integer"
    __usual__ = "popc"

    # -- bits ---------------------------------------------------------------------------------------------------------

    def popc(self, value: Operand) -> Value:
        """How many bits of `value` are set (s32). PTX ISA 9.7.1 (popc)."""
        word = self._unsigned("popc", value)
        return computed(self._k, integers.count("popc", str(word.type)), a=word)

    def clz(self, value: Operand) -> Value:
        """How many bits are clear above the highest set bit (s32); for 0, all of them. PTX ISA 9.7.1 (clz)."""
        word = self._unsigned("clz", value)
        return computed(self._k, integers.count("clz", str(word.type)), a=word)

    def ffs(self, value: Operand) -> Value:
        """The number of the lowest set bit, counted from 1 (s32); 0 for 0. PTX ISA 9.7.1 (brev, clz)."""
        word = self._unsigned("ffs", value)
        return select(self._k, word == 0, 0, self.clz(self.brev(word)) + 1)

    def brev(self, value: Operand) -> Value:
        """The bits of `value` in reverse. PTX ISA 9.7.1 (brev)."""
        word = self._unsigned("brev", value)
        return self._signed_as(value, computed(self._k, integers.reverse(str(word.type)), a=word))

    def bfe(self, value: Operand, start: Operand, length: Operand) -> Value:
        """`length` bits of `value` from bit `start` on, with the highest as the sign of a signed type.

        Bits past the type are 0, or its sign. Of the start and length of 32-bit types the low 8 bits count. PTX ISA
        9.7.1 (bfe).
        """
        word = self._word("bfe", value)
        field = self._field(word, start, length)
        if field is not None:
            first, bits = field
            above = word.type.bits - first - bits
            if not word.type.is_signed:
                return word >> first & (1 << bits) - 1
            return (word << above) >> above + first
        return computed(self._k, integers.extract(str(word.type)), a=word, start=start, length=length)

    def bfi(self, value: Operand, base: Operand, start: Operand, length: Operand) -> Value:
        """`base` with its bits from `start` on replaced by the low `length` bits of `value`.

        What would lie past the type is left out. Of the start and length of 32-bit types the low 8 bits count. PTX ISA
        9.7.1 (bfi).
        """
        a, b = pair_of(self._k, "bfi", value, base)
        word, into = self._unsigned("bfi", a), self._unsigned("bfi", b)
        field = self._field(word, start, length)
        if field is not None:
            first, bits = field
            mask = ((1 << bits) - 1) << first
            return self._signed_as(a, (into & ((1 << word.type.bits) - 1 ^ mask)) | (word << first & mask))
        inserted = computed(self._k, integers.insert(str(word.type)), a=word, base=into, start=start, length=length)
        return self._signed_as(a, inserted)

    def funnel(self, low: Operand, high: Operand, by: Operand, *, direction: str = "l", clamp: bool = False) -> Value:
        """A word (u32) of `low` and `high`, shifted together: the upper to the left ("l"), or the lower ("r").

        The distance wraps at 32; with `clamp` it is at most 32. Raises instruction.variant. PTX ISA 9.7.8 (shf).
        """
        row = variant("shf", integers.funnel, direction, "clamp" if clamp else "wrap")
        return computed(self._k, row, low=low, high=high, by=by)

    def lop3(self, a: Operand, b: Operand, c: Operand, table: int) -> Value:
        """A logic function of three words (u32): bit 4a + 2b + c of `table` is the result for bits a, b and c.

        The table of a function is the function of 0xF0, 0xCC and 0xAA: `(0xF0 & 0xCC) ^ 0xAA` for (a & b) ^ c. Raises
        value.constant for one of more than 8 bits. PTX ISA 9.7.8 (lop3).
        """
        if isinstance(table, int) and table not in range(256):
            allowed = "the function of 0xF0, 0xCC and 0xAA, such as (0xF0 & 0xCC) ^ 0xAA; & 0xFF after a ~"
            problem = f"{hex(table)} is not a truth table of three bits, which is a number from 0 to 0xff"
            rules.CONSTANT_RANGE.fail(problem=problem, allowed=allowed)
        return computed(self._k, integers.logic(), a=a, b=b, c=c, table=table)

    # -- arithmetic ---------------------------------------------------------------------------------------------------

    def mulhi(self, a: Operand, b: Operand) -> Value:
        """The upper half of the product of two values of one type. PTX ISA 9.7.1 (mul.hi)."""
        x, y = pair_of(self._k, "mulhi", a, b)
        return computed(self._k, integers.multiply_high(str(self._word("mulhi", x).type)), a=x, b=y)

    def mul_wide(self, a: Operand, b: Operand) -> Value:
        """The whole product of two values of s16, u16, s32 or u32, in twice the bits. PTX ISA 9.7.1 (mul.wide)."""
        x, y = pair_of(self._k, "mul_wide", a, b)
        return computed(self._k, integers.wide(self._factor("mul_wide", x)), a=x, b=y)

    def mad_wide(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c: factors of s16, u16, s32 or u32, and `c` and the result of twice the bits. PTX ISA 9.7.1 (mad)."""
        x, y = pair_of(self._k, "mad_wide", a, b)
        return computed(self._k, integers.wide(self._factor("mad_wide", x), True), a=x, b=y, c=c)

    def dp4a(self, a: Operand, b: Operand, c: Operand) -> Value:
        """`c` plus the products of the four bytes of `a` and `b`, which are u32 or s32 as their bytes are.

        `c` and the result are u32 where both are, else s32. PTX ISA 9.7.1 (dp4a).
        """
        return self._dot("dp4a", a, b, c, "")

    def dp2a(self, a: Operand, b: Operand, c: Operand, *, half: str = "lo") -> Value:
        """`c` plus the products of the two halves of `a` with two bytes of `b`: the lower ("lo") or the upper ("hi").

        Types are those of `dp4a`. Raises instruction.variant. PTX ISA 9.7.1 (dp2a).
        """
        return self._dot("dp2a", a, b, c, half or "none")

    def sad(self, a: Operand, b: Operand, c: Operand = 0) -> Value:
        """|a - b| + c, of one type. PTX ISA 9.7.1 (sad)."""
        x, y = pair_of(self._k, "sad", a, b)
        return computed(self._k, integers.difference(str(self._word("sad", x).type)), a=x, b=y, c=c)

    def add_sat(self, a: Operand, b: Operand) -> Value:
        """a + b of s32, which saturates. PTX ISA 9.7.1 (add.sat)."""
        return computed(self._k, integers.saturating("add"), a=a, b=b)

    def sub_sat(self, a: Operand, b: Operand) -> Value:
        """a - b of s32, which saturates. PTX ISA 9.7.1 (sub.sat)."""
        return computed(self._k, integers.saturating("sub"), a=a, b=b)

    def add_carry(self, a: Operand, b: Operand, carry: Operand | None = None) -> tuple[Value, Value]:
        """a + b + carry of u32, and the carry of that sum: 1 or 0. `carry` is 1 or 0. PTX ISA 9.7.2 (addc)."""
        return self._carried("add", a, b, carry)

    def sub_borrow(self, a: Operand, b: Operand, borrow: Operand | None = None) -> tuple[Value, Value]:
        """a - b - borrow of u32, and whether that borrows: 1 or 0. `borrow` is 1 or 0. PTX ISA 9.7.2 (subc)."""
        return self._carried("sub", a, b, borrow)

    # -- how they are emitted -----------------------------------------------------------------------------------------

    def _word(self, name: str, value: Operand) -> Value:
        """A value of 32 or 64 bits; a Python number is an s32."""
        word = as_value(self._k, value)
        self._check(name, word.type, integers.WORDS)
        return word

    def _unsigned(self, name: str, value: Operand) -> Value:
        word = self._word(name, value)
        return word.to(BY_NAME[f"u{word.type.bits}"]) if word.type.is_signed else word

    def _signed_as(self, value: Operand, word: Value) -> Value:
        return word.to(as_value(self._k, value).type)

    def _factor(self, name: str, value: Value) -> str:
        self._check(name, value.type, integers.FACTORS)
        return str(value.type)

    def _check(self, name: str, element: ElementType, legal: tuple[str, ...]) -> None:
        if str(element) not in legal:
            advice = f"convert to one of {', '.join(legal)} first"
            rules.UNSUPPORTED_OPERATION.fail(operation=f"k.integer.{name}", element=element, advice=advice)

    def _field(self, word: Value, start: Operand, length: Operand) -> tuple[int, int] | None:
        """The start and length of a field that is inside `word` for certain, of a bit at least."""
        values = [known_number(as_value(self._k, operand, s32).ir, s32) for operand in (start, length)]
        first, bits = values
        if isinstance(first, int) and isinstance(bits, int) and 0 <= first < first + bits <= word.type.bits:
            return first, bits
        return None

    def _dot(self, name: str, a: Operand, b: Operand, c: Operand, half: str) -> Value:
        x, y = as_value(self._k, a), as_value(self._k, b)
        for word in (x, y):
            self._check(name, word.type, integers.BYTE_KINDS)
        return computed(self._k, variant(name, integers.dot, str(x.type), str(y.type), half), a=x, b=y, c=c)

    def _carried(self, operation: str, a: Operand, b: Operand, carry: Operand | None) -> tuple[Value, Value]:
        carried = {} if carry is None else {"carry": carry}
        outputs = all_computed(self._k, integers.carry(operation, carry is not None), a=a, b=b, **carried)
        return outputs[0], outputs[1]
