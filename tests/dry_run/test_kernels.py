"""What `build()` and the simulator say about the kernels that the dry run is held to.

goldens/build.txt and goldens/simulator.txt have today's verdict of each. A wrong kernel that is refused is refused by a
rule of its kind (`KINDS`), or is in goldens/other_causes.txt. That the same kernel without the mistake is right, NumPy
and the simulator say.
"""

from __future__ import annotations

import pytest

from tests.dry_run.kinds import KINDS
from tests.dry_run.measure import NOT_BUILT, NUMBERS, SILENT, Built, Simulated, build, rules_of, simulator_verdict
from tests.dry_run.registry import Case, Scene, cases, scenes
from tests.dry_run.verdicts import Verdicts, kind_of
from tests.support.golden import Golden
from tests.support.rule_catalogue import declared_rules

CASES = {case.name: case for case in cases()}
RIGHT = [name for name, case in CASES.items() if not case.wrong]
WRONG = [name for name, case in CASES.items() if case.wrong]
SAMPLE = [scene.name for number, scene in enumerate(scenes()) if number % 5 == 0]
FALSE_ALARMS: dict[str, str] = {}
"""Right kernels that are refused today, and by which rule."""
UNSEEN: tuple[str, ...] = ()
"""Wrong kernels that neither `build` nor the simulator says anything about today."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
def test_build_says_what_is_noted(scene: Scene, request: pytest.FixtureRequest) -> None:
    """And a mistake or a variant changes the kernel: a name that it does not ask for would leave it right."""
    built = {case.name: build(case, check=True) for case in CASES.values() if case.scene.name == scene.name}
    measured = {name: one.verdict for name, one in built.items()}
    Verdicts("build.txt", request.config.getoption("--update-golden")).check(measured)
    right = built[scene.name].ir
    assert right is None or [name for name, one in built.items() if one.ir == right] == [scene.name]


@pytest.fixture
def noted() -> dict[str, Built]:
    """What `build` says about each case, which the test above has compared."""
    return {name: Built(verdict) for name, verdict in Verdicts("build.txt", update=False).noted().items()}


def test_nothing_is_said_about_a_right_kernel(noted: dict[str, Built]) -> None:
    assert {name: noted[name].verdict for name in RIGHT if noted[name].verdict != SILENT} == FALSE_ALARMS


def test_wrong_kernels_are_refused_for_their_own_cause(noted: dict[str, Built], golden: Golden) -> None:
    """Those in the golden file are refused by rules that name other causes, most of them what follows from theirs."""
    others = [
        f"{name:60} {kind_of(CASES[name]):17} {one.verdict}"
        for name, one in noted.items()
        if name in WRONG and one.rules and not one.rules & KINDS[CASES[name].wrong.kind].rules
    ]
    golden.check("other_causes.txt", "\n".join(others))


def test_every_rule_of_a_kind_is_one() -> None:
    known = {declared.rule.id for declared in declared_rules()}
    assert {rule for kind in KINDS.values() for rule in kind.rules} <= known


@pytest.mark.parametrize("name", SAMPLE)
def test_a_right_kernel_is_right_in_the_simulator(name: str) -> None:
    assert Simulated(CASES[name]).run(CASES[name].scene.launches()[0]) == SILENT


@pytest.mark.exhaustive(seconds=40)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_kernel_is_right_whatever_the_order(name: str) -> None:
    assert simulator_verdict(CASES[name], range(20)) == SILENT


@pytest.mark.exhaustive(seconds=10)
@pytest.mark.parametrize("scene", scenes(), ids=lambda scene: scene.name)
def test_the_simulator_says_what_is_noted(scene, request: pytest.FixtureRequest) -> None:
    """Refused kernels too, which are run without the checks of `build`: so it is known that they are wrong."""
    wrong = [Case(scene, mistake) for mistake in scene.mistakes]
    measured = {case.name: simulator_verdict(case, range(3)) for case in wrong}
    Verdicts("simulator.txt", request.config.getoption("--update-golden")).check(measured)


def _witnesses() -> list[str]:
    """A case of each rule that the simulator names, and all cases of which it names none: a new check may name them."""
    cases_by_verdict: dict[str, str] = {}
    for name, verdict in Verdicts("simulator.txt", update=False).noted().items():
        if verdict != NOT_BUILT and name in CASES:
            cases_by_verdict.setdefault(name if verdict in (SILENT, NUMBERS) else verdict, name)
    return [*cases_by_verdict.values()]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", _witnesses())
def test_what_is_noted_of_the_simulator_is_what_it_says(name: str) -> None:
    """Some of what the exhaustive test above measures: it writes the file, with --update-golden."""
    assert simulator_verdict(CASES[name], range(3)) == Verdicts("simulator.txt", update=False).noted()[name]


def test_every_mistake_is_noted_once() -> None:
    assert Verdicts("simulator.txt", update=False).noted().keys() == {*WRONG}


def test_build_or_the_simulator_finds_every_mistake(noted: dict[str, Built]) -> None:
    simulated = Verdicts("simulator.txt", update=False).noted()
    assert {name for name in WRONG if noted[name].verdict == simulated[name] == SILENT} == set(UNSEEN)


def test_a_try_may_fail_at_first() -> None:
    """With an odd seed: a result that nobody looks at is seen by that."""
    case = CASES["polled[asks_once]"]
    verdicts = [Simulated(case).run(case.scene.launches()[0], seed) for seed in range(2)]
    assert [found if isinstance(found, str) else rules_of(found) for found in verdicts] == [
        SILENT,
        "proxy.read-before-wait",
    ]


def test_stores_to_tensor_memory_end_in_any_order() -> None:
    case = CASES["accumulator_by_hand"]
    assert Simulated(case).run(case.scene.launches()[0], seed=2) == SILENT
