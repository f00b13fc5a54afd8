"""Rules of a user's own: found, allowed, of another severity, and what is wrong with them."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

import nvbackend as nvb
from nvbackend import Diagnostic, DiagnosticError, Severity, u32
from nvbackend.isel.machine.function import MachineFunction
from nvbackend.rules import Finding, Flow, Rule
from tests.support.proxy_program import MMA, TILE

ID = "house.atomic-in-loop"


def atomics_in_loops(flow: Flow) -> Iterator[Finding]:
    for site in flow.sites:
        if site.instr.semantics.atomic and flow.reaches(site, site):
            assert site.instr.row is not None
            yield Finding(site, notes=[("the kernel begins", flow.sites[0])], spelling=site.instr.row.ptx)


def rule(
    analysis: Any = atomics_in_loops, name: str = ID, message: str = "{spelling} is in a loop", **more: Any
) -> Rule:
    return Rule(name, message=message, fix="use one after it", reference="house rules", analysis=analysis, **more)


def kernel(in_loop: bool, rules: Any, **more: Any) -> nvb.KernelDefinition:
    @nvb.kernel("sm_90a", threads=32, rules=rules, **more)
    def count(k, x: nvb.Pointer[u32], total: nvb.Pointer[u32]):
        with k.range(8) as i:
            value = x[i * 32 + k.thread_id()]
            if in_loop:
                k.atomic.add(total, value)  # here
        k.atomic.add(total, 1)

    return count


def failures(build: Callable[[], object]) -> tuple[Diagnostic, ...]:
    with pytest.raises(DiagnosticError) as caught:
        build()
    return caught.value.diagnostics


def test_a_finding_is_a_diagnostic_at_its_line() -> None:
    (fault,) = failures(kernel(in_loop=True, rules=(rule(),)).build)
    assert (fault.rule_id, fault.severity, fault.fix) == (ID, Severity.ERROR, "use one after it")
    assert fault.message == "atom.relaxed.gpu.global.add.u32 is in a loop"
    assert fault.location is not None
    assert fault.location.source.endswith("# here")
    assert [text for text, _ in fault.notes] == ["the kernel begins"]
    assert "see: house rules" in str(fault)
    assert fault.rule == rule()
    assert pickle.loads(pickle.dumps(fault)).message == fault.message


def test_what_keeps_the_rule_builds() -> None:
    assert kernel(in_loop=False, rules=(rule(), rule(lambda flow: [], "house.other"))).build().diagnostics == ()


def test_it_may_be_allowed_as_ours() -> None:
    finished = kernel(in_loop=True, rules=(rule(),), allow={ID: "few rounds"}).build()
    (suppressed,) = finished.suppressed
    assert (suppressed.diagnostic.rule_id, suppressed.reason) == (ID, "few rounds")


def test_it_may_be_allowed_in_a_block() -> None:
    @nvb.kernel("sm_90a", threads=32, rules=(rule(),))
    def count(k, total: nvb.Pointer[u32]):
        with k.range(8), k.allow(ID, reason="few rounds"):
            k.atomic.add(total, 1)

    assert [each.diagnostic.rule_id for each in count.build().suppressed] == [ID]


def test_an_allowance_of_what_is_not_found_is_unused() -> None:
    with pytest.warns(nvb.DiagnosticWarning, match=ID):
        (fault,) = kernel(in_loop=False, rules=(rule(),), allow=(ID,)).build().diagnostics
    assert fault.rule_id == "allow.unused"


def test_its_id_is_unknown_without_it() -> None:
    (fault,) = failures(kernel(in_loop=False, rules=(), allow=(ID,)).build)
    assert fault.rule_id == "allow.unknown"


@pytest.mark.parametrize("more", [{"severity": {ID: "warning"}}, {}])
def test_its_severity(more: dict[str, Any]) -> None:
    own = rule() if more else rule(severity=Severity.WARNING)
    with pytest.warns(nvb.DiagnosticWarning, match=ID):
        (fault,) = kernel(in_loop=True, rules=(own,), **more).build().diagnostics
    assert (fault.rule_id, fault.severity) == (ID, Severity.WARNING)


def test_a_machine_form_is_judged_afterwards() -> None:
    machine = kernel(in_loop=True, rules=()).build().machine
    assert nvb.verify(machine) == []
    assert [fault.rule_id for fault in nvb.verify(machine, rules=[rule()])] == [ID]


def test_a_definition_of_other_constants_keeps_its_rules() -> None:
    (fault,) = failures(kernel(in_loop=True, rules=(rule(),)).with_(name="other").build)
    assert fault.rule_id == ID


def test_a_kernel_is_judged_at_every_compilation() -> None:
    """What the analysis reads is not compared, so that no earlier kernel counts."""
    answers: list[bool] = []

    def analysis(flow: Flow) -> list[Finding]:
        answers.append(True)
        return [Finding(site) for site in flow.sites[: len(answers) - 1]]

    definition = kernel(in_loop=False, rules=(rule(analysis, message="a site"),))
    definition.compile(assemble=False)
    assert failures(lambda: definition.compile(assemble=False))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (rule(), "is not a sequence of rules"),
        (None, "is not a sequence of rules"),
        ((ID,), "is not an nvb.Rule"),
        ((rule(name="house"),), "'house' is not the id of a rule"),
        ((rule(name="house."),), "'house.' is not the id of a rule"),
        ((rule(name="mbarrier.arrivals"),), "the id mbarrier.arrivals is that of another rule"),
        ((rule(), rule(message="x")), f"the id {ID} is that of another rule"),
        ((rule(analysis=None),), "has no analysis: None cannot be called"),
    ],
)
def test_what_is_not_a_rule(rules: Any, words: str) -> None:
    (fault,) = failures(kernel(in_loop=False, rules=rules).build)
    assert fault.rule_id == "rule.form"
    assert words in fault.message
    assert fault.location is not None
    assert fault.location.file == __file__


def test_rules_of_a_generator_are_asked_at_each_build() -> None:
    definition = kernel(in_loop=True, rules=(each for each in [rule()]))
    for _ in range(2):
        (fault,) = failures(definition.build)
        assert fault.rule_id == ID


def test_one_rule_twice_is_asked_once() -> None:
    own = rule()
    assert len(failures(kernel(in_loop=True, rules=(own, own)).build)) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"severity": "warning"}, "severity='warning', which is not a severity"),
        ({"message": 3}, "message=3, which is not a text"),
        ({"fix": None}, "fix=None, which is not a text"),
        ({"why": b""}, "why=b'', which is not a text"),
        ({"reference": 4}, "reference=4, which is not a text"),
    ],
)
def test_a_text_or_severity_that_is_none_is_refused_where_the_rule_is_made(wrong: dict[str, Any], words: str) -> None:
    texts: dict[str, Any] = {"message": "a site", "fix": "remove it", **wrong}
    (fault,) = failures(lambda: Rule(ID, analysis=atomics_in_loops, **texts))
    assert fault.rule_id == "rule.form"
    assert f"rule {ID} has {words}" in fault.message
    assert fault.location is not None
    assert fault.location.file == __file__


@pytest.mark.parametrize("notes", ["ab", ["a"], [("a",)], [(1, None)], ["ab"], 5])
def test_notes_that_are_no_pairs_of_a_text_and_a_site(notes: Any) -> None:
    own = rule(lambda flow: [Finding(flow.sites[0], notes=notes)])  # here
    (fault,) = failures(kernel(in_loop=False, rules=(own,)).build)
    assert fault.rule_id == "rule.form"
    assert "is not a" in fault.message
    assert fault.location is not None
    assert fault.location.source.endswith("# here")


def test_plain_accesses_of_global_memory_are_no_sites() -> None:
    """The guide says so, and which accesses are sites."""

    @nvb.kernel("sm_90a", threads=32)
    def copies(k, x: nvb.Pointer[u32], y: nvb.Pointer[u32]):
        i = k.thread_id()
        y[i] = x[i]
        (y + i).store(x[i], order="relaxed", scope="gpu")
        (y + i).store(x[i], cache="cs")

    built = copies.build()
    texts = [site.instr.row.ptx for site in Flow(built.machine).sites if site.instr.row is not None]
    assert [text for text in texts if text.startswith(("ld", "st"))] == [
        "st.relaxed.gpu.global.b32",
        "st.global.cs.b32",
    ]
    assert "st.global.b32" in built.compile(assemble=False).ptx


def contents(function: MachineFunction) -> Iterator[tuple[str, dict[Any, Any] | list[Any]]]:
    """Every dictionary and list of a function, of its blocks and of their instructions, with the field's name."""
    blocks = [*function.blocks.values()]
    for thing in (*(instr for block in blocks for instr in block.instructions), *blocks, function):
        for part in fields(thing):
            if isinstance(value := getattr(thing, part.name), dict | list):
                yield part.name, value


def destroys(flow: Flow) -> list[Finding]:
    for name, value in [*contents(flow.function)]:
        if name != "blocks":
            value.clear()
    flow.function.blocks.clear()
    return []


def all_kinds(rules: Any, **more: Any) -> nvb.KernelDefinition:
    """A kernel of which something is in every dictionary and list."""

    @nvb.kernel("sm_90a", threads=128, rules=rules, **more)
    def kernel(k, x: nvb.Pointer[u32]):
        tile, acc, parity = k.shared_tile(TILE), k.wgmma.accumulator(64), k.var(0)
        full = k.mbarrier.array(1, arrivals=128)
        k.mbarrier.ready()
        with k.range(8):
            k.mbarrier.arrive(full)
            k.mbarrier.wait(full, parity)
            parity ^= 1
            k.atomic.add(x, 1)
        with k.wgmma.group():
            k.wgmma.mma_async(acc, tile, tile, MMA, a_at=(0, 0), b_at=(0, 0))
        parity.set(0)
        k.assert_(parity.value == 0)
        x[k.thread_id()] = acc[0].to(u32) + parity.value.to(u32)

    return kernel


def test_an_analysis_changes_neither_the_kernel_nor_what_the_next_one_sees() -> None:
    before = [(name, len(value)) for name, value in contents(all_kinds(()).build().machine)]
    assert {name for name, _ in before} - {name for name, size in before if size} == set()
    severe = {"severity": {ID: "warning"}}
    with pytest.warns(nvb.DiagnosticWarning, match=ID):
        finished = all_kinds((rule(destroys, "house.first"), rule()), **severe).build()
    assert [(name, len(value)) for name, value in contents(finished.machine)] == before
    assert [fault.rule_id for fault in finished.diagnostics] == [ID]


def raises(flow: Flow) -> list[Finding]:
    raise KeyError(flow.sites[0].block)


def raises_later(flow: Flow) -> Iterator[Finding]:
    yield Finding(flow.sites[0])
    raise ValueError("later")


def takes_nothing() -> list[Finding]:
    return []


def raises_nothing(flow: Flow) -> list[Finding]:
    raise DiagnosticError([])


def ends(flow: Flow) -> list[Finding]:
    sys.exit(0)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raises_silently(flow: Flow) -> list[Finding]:
    raise Silent


def replaced(name: str, value: object) -> Callable[[Flow], list[Finding]]:
    def analysis(flow: Flow) -> list[Finding]:
        finding = Finding(flow.sites[0])
        setattr(finding, name, value)
        return [finding]

    return analysis


class Unprintable:
    def __format__(self, how: str) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("analysis", "words"),
    [
        (raises, "raises KeyError: 'for.body'"),
        (raises_later, "raises ValueError: later"),
        (lambda flow: flow.nothing, "raises AttributeError"),
        (takes_nothing, "raises TypeError"),
        (raises_nothing, "raises DiagnosticError"),
        (ends, "raises SystemExit: 0"),
        (raises_silently, "raises Silent"),
        (replaced("site", 5), "raises AttributeError"),
        (replaced("notes", [5]), "raises AttributeError"),
        (replaced("values", 5), "raises AttributeError"),
        (lambda flow: [Finding(flow.sites[0], spelling=Unprintable())], "fill in its texts: RuntimeError: no text"),
        (lambda flow: None, "returns None"),
        (lambda flow: 5, "returns 5"),
        (lambda flow: flow.sites[:1], "which is not a finding"),
        (lambda flow: [Finding(None)], "a finding at None, which is not a site of this kernel"),  # type: ignore[arg-type]
        (lambda flow: [Finding(flow.sites[0].instr)], "which is not a site of this kernel"),
        (lambda flow: [Finding(flow.sites[0], notes=[("x", 5)])], "a finding at 5"),
        (lambda flow: [Finding(flow.sites[0], other=1)], "whose values (other) do not fill in its texts: KeyError"),
        (lambda flow: [Finding()], "raises TypeError"),  # type: ignore[call-arg]
    ],
)
def test_an_analysis_that_fails(analysis: Any, words: str) -> None:
    (fault,) = failures(kernel(in_loop=False, rules=(rule(analysis),)).build)
    assert fault.rule_id == "rule.analysis"
    assert words in fault.message
    assert fault.location is not None
    assert fault.location.file == __file__


def test_a_wrong_question_is_named_at_its_line() -> None:
    (fault,) = failures(kernel(in_loop=False, rules=(rule(lambda flow: [flow.reaches(None, 4)]),)).build)
    assert fault.rule_id == "call.argument"
    assert "Flow.reaches: second must be Site" in fault.message


def test_one_that_fails_leaves_the_others() -> None:
    faults = failures(kernel(in_loop=True, rules=(rule(raises, "house.first"), rule())).build)
    assert [fault.rule_id for fault in faults] == ["rule.analysis", ID]


def lines_of(machine: Any) -> list[tuple[str, int, str]]:
    """The plain accesses that an analysis sees: opcode, bytes and line."""
    return [
        (site.instr.opcode, site.instr.semantics.memory[0].extent, site.instr.location.source)
        for site in Flow(machine).sites
        if site.instr.opcode in ("ld.global", "st.global")
    ]


@nvb.kernel("sm_100a", threads=32)
def accesses(k, x: nvb.Pointer(u32, align=32), y: nvb.Pointer(u32, align=32)):
    lane = k.thread_id()
    four = (x + lane * 4).load(4)
    k.barrier.sync()
    y[lane] = four[0]
    with k.if_(lane < 4):
        (y + lane * 2).store(*four[:2], where=lane < 2)
    y.store(four[0], order="release", scope="gpu")


def test_an_analysis_sees_plain_accesses_of_global_memory_where_they_are_written() -> None:
    machine = accesses.build().machine
    assert lines_of(machine) == [
        ("ld.global", 16, "four = (x + lane * 4).load(4)"),
        ("st.global", 4, "y[lane] = four[0]"),
        ("st.global", 8, "(y + lane * 2).store(*four[:2], where=lane < 2)"),
    ]
    flow = Flow(machine)
    load, narrow, vector = (site for site in flow.sites if site.instr.opcode in ("ld.global", "st.global"))
    (barrier,) = (site for site in flow.sites if site.instr.opcode == "bar.sync")
    assert flow.dominates(load, barrier)
    assert flow.dominates(barrier, narrow)
    assert flow.dominates(narrow, vector)
    assert not flow.postdominates(vector, narrow)
    assert [site.position for site in flow.sites] == [*range(len(flow.sites))]
    assert "st.global address" not in str(machine)  # the machine form is what was selected
    assert Flow(flow.function).sites == flow.sites


def test_a_finding_at_a_plain_store_has_its_line_and_callers_and_may_be_allowed() -> None:
    def stores(flow: Flow) -> Iterator[Finding]:
        return (Finding(site) for site in flow.sites if site.instr.opcode == "st.global")

    def helper(k: Any, x: Any) -> None:
        x[k.thread_id()] = 1

    def made(allowed: bool) -> nvb.KernelDefinition:
        @nvb.kernel("sm_90a", threads=32, rules=(rule(stores, message="a store"),))
        def storing(k, x: nvb.Pointer[u32]):
            if allowed:
                with k.allow(ID, reason="one alone"):
                    helper(k, x)
            else:
                helper(k, x)  # called

        return storing

    (fault,) = failures(made(allowed=False).build)
    assert fault.location is not None
    assert fault.location.source == "x[k.thread_id()] = 1"
    assert fault.location.callers[0].source == "helper(k, x)  # called"
    assert [one.diagnostic.rule_id for one in made(allowed=True).build().suppressed] == [ID]


def test_plain_accesses_stay_in_place_where_the_instruction_before_them_goes() -> None:
    """A shuffle of the warp's index is taken out again where a part of the warp comes."""

    @nvb.kernel("sm_90a", threads=64)
    def parted(k, x: nvb.Pointer[u32]):
        with k.if_(k.lane_id() == 0):
            x[0] = 1
            x[k.warp_id()] = 2
            k.atomic.add(x, 1)
            x[1] = 3

    machine = parted.build().machine
    sites = [site.instr for site in Flow(machine).sites]
    opcodes = [one.opcode for one in sites if "global" in one.opcode or one.opcode.startswith("atom")]
    assert opcodes[:2] == ["st.global", "st.global"]
    assert opcodes[-1] == "st.global"
    assert [one[2] for one in lines_of(machine)] == ["x[0] = 1", "x[k.warp_id()] = 2", "x[1] = 3"]
