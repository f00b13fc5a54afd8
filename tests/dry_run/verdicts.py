"""What was said about each kernel, in a file that people read: a line for each case."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.dry_run.registry import Case, cases

FOLDER = Path(__file__).parent / "goldens"
_RIGHT = "right"


@dataclass(frozen=True)
class Verdicts:
    """The file `name` of the goldens. `update` writes what is measured instead of comparing."""

    name: str
    update: bool

    def check(self, measured: dict[str, str]) -> None:
        """Fail where a case measured now has another verdict than in the file, or is not in it."""
        noted = self.noted()
        if self.update:
            self._write({**noted, **measured})
            return
        different = [
            f"{name}: {found}, noted: {noted.get(name, 'nothing')}"
            for name, found in measured.items()
            if noted.get(name) != found
        ]
        assert not different, "\n".join([*different, "read them, then bless them with pytest --update-golden"])

    def noted(self) -> dict[str, str]:
        """The verdicts in the file, by the names of the cases."""
        if not self._path.exists():
            return {}
        rows = [line.split(maxsplit=2) for line in self._path.read_text(encoding="utf-8").splitlines()]
        return {name: verdict for name, _, verdict in rows}

    @property
    def _path(self) -> Path:
        return FOLDER / self.name

    def _write(self, verdicts: dict[str, str]) -> None:
        FOLDER.mkdir(exist_ok=True)
        rows = [(case.name, kind_of(case), verdicts[case.name]) for case in cases() if case.name in verdicts]
        widths = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [f"{name:{widths[0]}}  {kind:{widths[1]}}  {verdict}\n" for name, kind, verdict in rows]
        self._path.write_text("".join(lines), encoding="utf-8")


def kind_of(case: Case) -> str:
    """The kind of its mistake, or "right"."""
    return case.wrong.kind if case.wrong else _RIGHT
