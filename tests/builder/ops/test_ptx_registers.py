"""Registers of a user's own PTX are its own, outputs are written, and addresses are of the memory that it names."""

from __future__ import annotations

import numpy as np
import pytest

import nvbackend as nvb
from nvbackend import DiagnosticError, i32, u32


def run(kernel: nvb.KernelDefinition, *arguments: object) -> None:
    nvb.runtime.load(kernel.compile(), device="simulator").launch(1, *arguments)


def test_an_input_that_is_read_after_an_output_is_written() -> None:
    """In a loop LLVM would give both one register."""

    @nvb.kernel("sm_90a", threads=32)
    def counted(k, p: nvb.Pointer[u32], n: i32):
        v = k.var(k.thread_id().to(u32))
        with k.range(n):
            text = "mov.u32 {d}, 1; add.u32 {d}, {d}, {a};"
            v.set(k.ptx(text, outputs={"d": u32}, inputs={"a": v.value}))
        p[k.thread_id()] = v.value

    p = np.zeros(32, np.uint32)
    run(counted, p, 5)
    assert (p == np.arange(32) + 5).all()


def test_an_input_that_the_text_changes_keeps_its_value() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def changed(k, p: nvb.Pointer[u32]):
        t = k.thread_id().to(u32)
        above = k.ptx("add.u32 {a}, {a}, 1; mov.u32 {d}, {a};", outputs={"d": u32}, inputs={"a": t})
        p[t] = t * 100 + above

    p = np.zeros(32, np.uint32)
    run(changed, p)
    assert (p == np.arange(32) * 101 + 1).all()


def test_a_predicate_keeps_its_value() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def turned(k, p: nvb.Pointer[u32]):
        t = k.thread_id().to(u32)
        low = t < 10
        high = k.ptx("not.pred {a}, {a}; mov.pred {d}, {a};", outputs={"d": nvb.pred}, inputs={"a": low})
        p[t] = (k.select(low, 1, 2) + k.select(high, 10, 20)).to(u32)

    p = np.zeros(32, np.uint32)
    run(turned, p)
    assert (p == np.where(np.arange(32) < 10, 21, 12)).all()


def test_declarations_of_a_text_that_is_there_twice() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def twice(k, p: nvb.Pointer[u32]):
        for number in (5, 6):
            text = f".reg .u32 q; mov.u32 q, {number}; mov.u32 {{d}}, q;  // {number}"
            p[k.thread_id() + 32 * (number - 5)] = k.ptx(text, outputs={"d": u32})
        with k.range(2, unroll=True) as i:
            p[64 + i] = k.ptx(".reg .u32 q; mov.u32 q, 7; mov.u32 {d}, q;", outputs={"d": u32})

    p = np.zeros(66, np.uint32)
    run(twice, p)
    assert p.tolist() == [5] * 32 + [6] * 32 + [7] * 2
    assert twice.compile().cubin is not None


WRITTEN = {
    "mov.u32 {d}, {a};": None,
    "{{ .reg .pred q; setp.gt.u32 q, {a}, 9; @q mov.u32 {d}, 1; @!q mov.u32 {d}, 2; }}": None,
    "{{ .reg .b32 h; mov.b64 {{{d}, h}}, 5; add.u32 h, h, {a}; }}": None,
    "{{ .reg .pred q; shfl.sync.idx.b32 {d}|q, {a}, 0, 31, -1; }}": None,
    "mov.u32 {a}, {d};": "it does not write d",
    "// mov {d}, {a};": "it does not write d",
    "{{ .reg .pred q; setp.gt.u32 q, {a}, 9; @q mov.u32 {d}, 1; }}": "under one predicate alone",
}


def problem(body) -> str:
    with pytest.raises(DiagnosticError) as caught:
        nvb.kernel("sm_90a", threads=32)(body).build()
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.location.file == __file__
    return f"{diagnostic.rule_id}: {diagnostic.message}"


@pytest.mark.parametrize("text", WRITTEN)
def test_an_output_is_written_in_every_thread(text: str) -> None:
    def body(k, p: nvb.Pointer[u32]):
        a = k.thread_id().to(u32)
        effects = ("convergent",) if "shfl" in text else ()
        p[a] = k.ptx(text, outputs={"d": u32}, inputs={"a": a}, effects=effects)

    if WRITTEN[text] is None:
        nvb.kernel("sm_90a", threads=32)(body).build()
    else:
        said = problem(body)
        assert said.startswith("ptx.operand: ")
        assert WRITTEN[text] in said


def test_an_output_that_comes_in_has_a_number_already() -> None:
    @nvb.kernel("sm_90a", threads=32)
    def some(k, p: nvb.Pointer[u32]):
        t = k.thread_id().to(u32)
        text = "{{ .reg .pred q; setp.gt.u32 q, {d}, 9; @q mov.u32 {d}, 1; }}"
        p[t] = k.ptx(text, outputs={"d": u32}, inputs={"d": t})

    p = np.zeros(32, np.uint32)
    run(some, p)
    assert (p == np.where(np.arange(32) > 9, 1, np.arange(32))).all()


def test_memory_that_is_declared_const_is_not_written() -> None:
    def body(k, p: nvb.Pointer(u32, const=True)):
        inputs = {"p": p + k.thread_id(), "a": k.thread_id().to(u32)}
        k.ptx("st.global.u32 [{p}], {a};", inputs=inputs, effects=("writes p",))

    assert problem(body).startswith("memory.constant: st.global.u32 of k.ptx writes to memory")


def test_an_address_of_another_memory() -> None:
    def of_global(k, p: nvb.Pointer[u32]):
        p[0] = k.ptx("ld.shared.u32 {d}, [{p}];", outputs={"d": u32}, inputs={"p": p}, effects=("reads p",))

    assert "ld.shared.u32 takes shared, and p is an address of global memory" in problem(of_global)


@pytest.mark.parametrize("name", ["{n:.1}", "{n!r}", "{n:/>9}", "{n:99999999999}"])
def test_operands_have_no_format(name: str) -> None:
    def body(k, p: nvb.Pointer[u32]):
        p[0] = k.ptx(f"mov.u32 {{d}}, {name};", outputs={"d": u32}, inputs={"n": 123})

    assert "{n} has a format" in problem(body)


@pytest.mark.parametrize("options", [{"outputs": {1: u32}}, {"outputs": {"d": u32}, "inputs": {1: 2}}])
def test_names_are_texts(options) -> None:
    def body(k, p: nvb.Pointer[u32]):
        k.ptx("mov.u32 {d}, 1;", **options)

    assert "1 is not a name of an operand" in problem(body)


@pytest.mark.parametrize("name", ["a b", "1a", "a-b", "é", ""])
def test_names_are_identifiers(name: str) -> None:
    def body(k, p: nvb.Pointer[u32]):
        k.ptx("mov.u32 {d}, 1;", outputs={"d": u32}, inputs={name: k.const(2, u32)})

    assert f"{name!r} is not a name of an operand" in problem(body)


def test_half_of_a_character() -> None:
    def body(k, p: nvb.Pointer[u32]):
        k.ptx("mov.u32 {d}, 1; // \ud800", outputs={"d": u32})

    assert "half of a character" in problem(body)
