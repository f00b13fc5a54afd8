"""The softmax of scores that come block by block: weights are powers of two, relative to one score of their row."""

from __future__ import annotations

from functools import partial, reduce

import nvbackend as nvb
from nvbackend import f32, i32
from samples.attention.choice import Form

GROWTH = 8.0  # of weights, in powers of two, that nothing is done about: f16 holds 2^15
LEAST = -1e30  # the greatest score of a row without any
ROUND = 12582912.0  # 1.5 * 2^23: added and taken away again, it rounds an f32
EXP2 = (0.05550410866, 0.24022650695, 0.69314718056, 1.0)  # 2^x from -0.5 to 0.5, within 1e-4


class Softmax:
    """The sum of weights of each row so far, and the score that they are relative to."""

    def __init__(self, k: nvb.KernelBuilder, scores: nvb.TileValues, scale: nvb.Operand, form: Form) -> None:
        """`scale` makes scores powers of two."""
        self._k, self._form, self._scale = k, form, scale
        self._keeps_nan = bool(form.polynomial)  # powers by multiplies are numbers, of NaN too: the row's own is needed
        self._max = partial(k.math.max, nan=self._keeps_nan)
        self.most = k.var(scores.rows(0.0), name="most")
        self.total = k.var(scores.rows(1.0), name="total")

    def _greatest(self, scores: nvb.TileValues) -> nvb.AxisValues:
        """Of each row, in two chains: a thread has pairs of columns, of its rows in turns."""
        first, second, third, fourth = (reduce(self._max, scores[part::4]) for part in range(4))
        own = iter((self._max(first, second), self._max(third, fourth)))
        return scores.rows(0.0).map(lambda _: next(own)).reduce_lanes("max", nan=self._keeps_nan)

    def _weights(self, scores: nvb.TileValues, most: nvb.AxisValues) -> nvb.TileValues:
        """Powers of two, one of `polynomial` * 2 by multiplies: the unit that has them is the slowest of all."""
        numbers = iter(range(len(scores)))

        def weight(score: nvb.Value, shift: nvb.Value) -> nvb.Value:
            number, power = next(numbers), score * self._scale - shift
            mine = self._form.polynomial and number // 4 % self._form.polynomial == 0 and number % 2
            return self._by_multiplies(power) if mine else self._k.math.exp2(power)

        return scores.map(weight, most.map(self._shift))

    def _shift(self, most: nvb.Value) -> nvb.Value:
        """What is taken from the powers of a row: its greatest score has weight 1."""
        return most * self._scale

    def _by_multiplies(self, power: nvb.Value) -> nvb.Value:
        power = self._k.math.max(power, -126.0)
        whole = power + ROUND
        rest = power - (whole - ROUND)
        made = reduce(lambda sum_, factor: sum_ * rest + factor, EXP2[1:], self._k.const(EXP2[0], f32))
        return (made.bitcast(i32) + (whole.bitcast(i32) << 23)).bitcast(f32)

    def begin(self, scores: nvb.TileValues) -> nvb.TileValues:
        """The weights of a tile's first scores. A row may have none that count."""
        most = self._greatest(scores).map(lambda value: self._max(value, LEAST))
        weights = self._weights(scores, most)
        self.most.set(most)
        self.total.set(weights.reduce_rows("add", lanes=False))
        return weights

    def step(self, scores: nvb.TileValues) -> tuple[nvb.TileValues, nvb.AxisValues, nvb.Value | None]:
        """The weights of more scores, the factor for the weights before, and whether a row of the warp has one."""
        k, before = self._k, self.most.value
        limit = GROWTH / self._scale
        above = (lambda old, new: k.select(new <= old + limit, old, new)) if self._form.patient else self._max
        most = before.map(above, self._greatest(scores))
        factor = before.map(lambda old, new: k.math.exp2((old - new) * self._scale), most)
        weights = self._weights(scores, most)
        self.total.set(self.total.value * factor + weights.reduce_rows("add", lanes=False))
        first, second = zip(before.values, most.values, strict=True)
        self.most.set(most)
        if not self._form.patient:
            return weights, factor, None
        return weights, factor, k.warp.vote("any", (first[1] > first[0]) | (second[1] > second[0]))

    def sums(self) -> nvb.AxisValues:
        """The sum of each row's weights, over the four lanes that have parts of it: NaN of an infinite or NaN score."""
        sums = self.total.value.reduce_lanes("add")
        return sums + (self.most.value - self.most.value) if self._keeps_nan else sums
