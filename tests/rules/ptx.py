"""PTX texts that are read."""

from __future__ import annotations

from nvbackend.ptx import parse, resolve
from tests.rules.example import program

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
