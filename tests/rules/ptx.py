"""PTX texts that are read."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import f32
from nvbackend.ptx import parse, resolve
from tests.rules.example import kernel, program

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


@program("ptx.syntax", located=False)
def no_comma():
    body = "mov.b32 %r0 %r1;"  # breaks
    body = "mov.b32 %r0, %r1;"  # keeps
    parse(f"{HEAD}.entry k() {{ .reg .b32 %r<2>; {body} }}")


@program("ptx.directive", located=False)
def misspelt_bound():
    bound = ".maxthreads 128"  # breaks
    bound = ".maxntid 128"  # keeps
    parse(f"{HEAD}.entry k() {bound} {{ ret; }}")


@program("ptx.undeclared", located=False)
def one_register_too_few():
    registers = ".reg .b32 %r<2>;"  # breaks
    registers = ".reg .b32 %r<3>;"  # keeps
    resolve(parse(f"{HEAD}.entry k() {{ {registers} mov.b32 %r2, %tid.x; }}"))


@program("ptx.redeclared", located=False)
def one_label_twice():
    second = "again"  # breaks
    second = "later"  # keeps
    resolve(parse(f"{HEAD}.entry k() {{ again: {second}: ret; }}"))


@program("ptx.form", located=False)
def a_call_of_a_number():
    call = "call 5;"  # breaks
    call = "call f;"  # keeps
    resolve(parse(f"{HEAD}.func f() {{ ret; }} .entry k() {{ {call} }}"))


@kernel("ptx.operand")
def an_operand_that_the_text_does_not_have(k, x: nvb.Pointer[f32]):
    value = x[0]
    x[0] = k.ptx("neg.f32 {out}, {b};", outputs={"out": f32}, inputs={"a": value})  # breaks
    x[0] = k.ptx("neg.f32 {out}, {a};", outputs={"out": f32}, inputs={"a": value})  # keeps


@kernel("ptx.effects")
def a_load_that_is_called_pure(k, x: nvb.Pointer[f32]):
    x[1] = k.ptx("ld.global.f32 {v}, [{p}];", outputs={"v": f32}, inputs={"p": x})  # breaks
    x[1] = k.ptx("ld.global.f32 {v}, [{p}];", outputs={"v": f32}, inputs={"p": x}, effects=("reads p",))  # keeps


@kernel("ptx.instruction")
def a_barrier_that_the_analyses_would_not_see(k, x: nvb.Pointer[f32]):
    box = k.shared(f32, 128)
    thread = k.thread_id()
    box[thread] = x[thread]
    k.ptx("bar.sync 0;", effects=("convergent",))  # breaks
    k.barrier.sync()  # keeps
    x[thread] = box[127 - thread]
