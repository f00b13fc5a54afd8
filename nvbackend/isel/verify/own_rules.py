"""Rules of a user's own: each has an analysis of the finished kernel, whose findings become diagnostics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NoReturn

from nvbackend.diagnostics import Diagnostic, DiagnosticError, Location, Rule, caller_location, printed
from nvbackend.diagnostics.classes.late_pattern import late_pattern
from nvbackend.diagnostics.declared import PACKAGE, declared
from nvbackend.diagnostics.diagnostic import FORM
from nvbackend.diagnostics.location import error_location
from nvbackend.isel.flow.dataflow import Site
from nvbackend.isel.flow.finished import finished
from nvbackend.isel.flow.plain_accesses import with_plain
from nvbackend.isel.flow.view import Flow
from nvbackend.isel.machine.function import MachineBlock, MachineFunction, MachineInstr

ANALYSIS = Rule(
    id="rule.analysis",
    message="the analysis of rule {rule} {problem}",
    fix="{advice}",
    why="The kernel would be taken for one that keeps the rule.",
    reference=FORM.reference,
)
_ID = late_pattern(r"[\w-]+(\.[\w-]+)+")


class Finding:
    """What an analysis finds at `site`; `values` fill in the texts of its rule, `notes` are other sites that matter.

    Raises rule.form for notes that are not pairs of a text and a site.
    """

    def __init__(self, site: Site, /, *, notes: Sequence[tuple[str, Site]] = (), **values: object) -> None:
        self._site = site
        self._notes = tuple(_checked_note(note) for note in _checked_notes(notes))
        self._values = values

    @property
    def site(self) -> Site:
        """Where it is."""
        return self._site

    @property
    def notes(self) -> tuple[tuple[str, Site], ...]:
        """Other sites that matter, each with what happens there."""
        return self._notes

    @property
    def values(self) -> Mapping[str, object]:
        """What fills in the texts of the rule."""
        return MappingProxyType(self._values)

    def __repr__(self) -> str:
        return f"<finding at {self.site!r}>"


def _checked_notes(notes: Any) -> Iterable[object]:
    try:
        if not isinstance(notes, str):
            each: Iterable[object] = iter(notes)
            return each
    except Exception:  # noqa: BLE001 (its own method may raise anything)
        pass
    _refuse(f"notes={printed(notes)} is not a sequence of notes", _NOTES)


def _checked_note(note: object) -> tuple[str, Site]:
    """`note` as a pair with a text; whether its site is one of the kernel is seen where the kernel is known."""
    if not (isinstance(note, tuple | list) and len(note) == 2 and isinstance(note[0], str)):
        _refuse(f"the note {printed(note)} is not a text and a site", _NOTES)
    return note[0], note[1]


_NOTES = 'pass pairs of a text and a site: nvb.rules.Finding(site, notes=[("it begins here", other_site)])'


def checked_rules(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """`rules`, each once. Raises rule.form for what is not a rule of a user's own."""
    if isinstance(rules, Rule) or not isinstance(rules, Iterable):
        _refuse(f"rules={printed(rules)} is not a sequence of rules", "write rules=(RULE,)")
    ids: dict[str, Rule] = {}
    for rule in rules:
        if not isinstance(rule, Rule):
            _refuse(f"{printed(rule)} is not an nvb.Rule", "give nvb.Rule objects")
        if not isinstance(rule.id, str) or not _ID.fullmatch(rule.id):
            advice = "name who makes it and what it is about, with a dot between: house.atomic-in-loop"
            _refuse(f"{rule.id!r} is not the id of a rule", advice)
        if rule.id in declared(PACKAGE) or ids.setdefault(rule.id, rule) is not rule:
            _refuse(f"the id {rule.id} is that of another rule", "give each rule an id of its own")
        if not callable(rule.analysis):
            advice = "write nvb.Rule(..., analysis=function), where function(flow) yields nvb.rules.Finding(site)"
            _refuse(f"rule {rule.id} has no analysis: {printed(rule.analysis)} cannot be called", advice)
    return tuple(ids.values())


def own_findings(function: MachineFunction, rules: Collection[Rule]) -> Iterator[Diagnostic]:
    """What the analyses of `rules` find in a finished function, and rule.analysis for one that fails."""
    for rule in rules:
        flow = Flow(finished(_copied(with_plain(function))))
        try:
            assert rule.analysis is not None
            answer = rule.analysis(flow)
            findings = [*answer] if isinstance(answer, Iterable) else answer
        except (Exception, SystemExit, GeneratorExit) as error:  # noqa: BLE001 (a user's function raises what it likes)
            if isinstance(error, DiagnosticError) and error.diagnostics:
                yield from error.diagnostics
            else:
                yield _wrong(rule, f"raises {_in_words(error)}", "correct the analysis", error_location(error))
        else:
            yield from _diagnostics(rule, findings, flow)


def _in_words(error: BaseException) -> str:
    """The exception's name and, where it can be printed, its text."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 (a user's exception)
        return name
    return f"{name}: {text}" if text else name


def _copied(function: MachineFunction) -> MachineFunction:
    """A copy for one analysis: what it changes changes neither the kernel nor what the next analysis sees."""
    blocks = {name: _copied_block(block) for name, block in function.blocks.items()}
    return replace(function, blocks=blocks, attributes={**function.attributes}, assertions=[*function.assertions])


def _copied_block(block: MachineBlock) -> MachineBlock:
    return replace(
        block,
        instructions=[_copied_instruction(instr) for instr in block.instructions],
        successors=[*block.successors],
        updates={**block.updates},
        constants={**block.constants},
    )


def _copied_instruction(instr: MachineInstr) -> MachineInstr:
    return replace(
        instr,
        operands={**instr.operands},
        registers={**instr.registers},
        immediates={**instr.immediates},
        words={**instr.words},
        facts={**instr.facts},
        sources={**instr.sources},
    )


def _diagnostics(rule: Rule, findings: object, flow: Flow) -> Iterator[Diagnostic]:
    if not isinstance(findings, list):
        yield _wrong(rule, f"returns {printed(findings)}", _YIELD)
        return
    sites, plain = flow.sites, replace(rule, analysis=None)  # a function of the user's may not go to another process
    for finding in findings:
        if not isinstance(finding, Finding):
            yield _wrong(rule, f"gives {printed(finding)}, which is not a finding", _YIELD)
            continue
        places = [finding.site, *(site for _, site in finding.notes)]
        strange = [site for site in places if not (isinstance(site, Site) and site in sites)]
        if strange:
            problem = f"gives a finding at {printed(strange[0])}, which is not a site of this kernel"
            yield _wrong(rule, problem, "pass a site of flow.sites: nvb.rules.Finding(site)")
            continue
        notes = tuple((text, site.instr.location) for text, site in finding.notes)
        try:
            yield plain.diagnose(at=finding.site.instr.location, notes=notes, **finding.values)
        except Exception as error:  # noqa: BLE001 (the values format themselves)
            known = ", ".join(finding.values) or "none"
            problem = f"gives a finding whose values ({known}) do not fill in its texts: {_in_words(error)}"
            yield _wrong(rule, problem, "pass each name in braces: nvb.rules.Finding(site, name=value)")


_YIELD = "yield nvb.rules.Finding(site) for each mistake, or return a list of them"


def _wrong(rule: Rule, problem: str, advice: str, at: Location | None = None) -> Diagnostic:
    """rule.analysis at a line of the analysis, or else where that begins."""
    code = getattr(rule.analysis, "__code__", None)
    begins = None if code is None else Location(code.co_filename, code.co_firstlineno, code.co_name)
    return ANALYSIS.diagnose(at=at or begins or caller_location(), rule=rule.id, problem=problem, advice=advice)


def _refuse(problem: str, advice: str) -> NoReturn:
    FORM.fail(problem=problem, advice=advice)
