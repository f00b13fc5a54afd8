"""What is wrong with a rule of a user's own."""

from __future__ import annotations

import nvbackend as nvb
from nvbackend import u32
from nvbackend.rules import Finding
from tests.rules.example import program


@program("rule.form")
def an_id_that_names_no_author():
    name = "no-atomics"  # breaks
    name = "house.no-atomics"  # keeps

    def atomics(flow):
        return [Finding(site) for site in flow.sites if site.instr.semantics.atomic]

    rule = nvb.Rule(name, message="an atomic", fix="store", analysis=atomics)

    @nvb.kernel("sm_90a", threads=32, rules=(rule,))
    def one(k, x: nvb.Pointer[u32]):
        x[0] = 1

    one.build()


@program("rule.analysis")
def an_analysis_that_finds_no_place():
    def atomics(flow):
        for site in flow.sites:
            yield Finding(None)  # breaks
            if site.instr.semantics.atomic:  # keeps
                yield Finding(site)  # keeps

    rule = nvb.Rule("house.no-atomics", message="an atomic", fix="store", analysis=atomics)

    @nvb.kernel("sm_90a", threads=32, rules=(rule,))
    def one(k, x: nvb.Pointer[u32]):
        x[k.thread_id()] = 1

    one.build()
