"""The sources of the site's pages: those of docs/, cut into pages of a useful size, and what is made of the package."""

from __future__ import annotations

import posixpath
import re

from tests.site import reference, support
from tests.support.process import ROOT

MANUAL = ("guide", "calls", "layout", "atoms", "tiled")
HOW_TO = ("porting", "embedding", "linking", "looking", "simulator", "checks", "debugging", "performance")
BACKGROUND = ("architecture", "mutations", "divergences", "documents", "stability")
PROJECT = ("CONTRIBUTING", "CHANGELOG")
LINK = re.compile(r"(?<!!)\]\((?P<path>[^)#\s:]*)(?P<anchor>#[^)\s]*)?\)")
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def pages() -> dict[str, str]:
    """The text of each page, by its file in the site's sources."""
    kept = {f"{name}.md": _read(f"docs/{name}.md") for name in (*MANUAL, *HOW_TO, *BACKGROUND)}
    kept |= {f"{name}.md": _read(f"{name}.md") for name in PROJECT}
    samples = _samples()
    made = reference.pages(rule_ids()) | {"support.md": support.page()} | samples | rules()
    whole = {"index.md": _read("README.md") + _tables_of_contents(sorted(samples)), **kept, **made}
    return {name: relinked(name, text, frozenset(whole)) for name, text in whole.items()}


def _read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _contents(caption: str, names: list[str]) -> str:
    """A table of contents that only the side bar shows."""
    listed = "\n".join(name.removesuffix(".md") for name in names)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption.capitalize()}\n\n{listed}\n```\n"


def _tables_of_contents(samples: list[str]) -> str:
    parts = {
        "manual": MANUAL,
        "how to": HOW_TO,
        "reference": ("api/index", "rules/index", "support"),
        "samples": samples,
        "background": BACKGROUND,
        "project": PROJECT,
    }
    return "".join(_contents(name, list(listed)) for name, listed in parts.items())


def _samples() -> dict[str, str]:
    """A page with the source of each sample, or of each folder of one."""
    folders = sorted(path for path in (ROOT / "samples").iterdir() if path.is_dir() and path.name != "__pycache__")
    sources = {path.name: sorted(path.glob("[!_]*.py")) for path in folders}
    sources |= {path.stem: [path] for path in sorted((ROOT / "samples").glob("[!_]*.py"))}
    return {
        f"samples/{name}.md": f"# {name}\n\n" + "\n".join(_listing(path.relative_to(ROOT).as_posix()) for path in paths)
        for name, paths in sources.items()
    }


def _listing(path: str) -> str:
    return f"`{path}`:\n\n```python\n{_read(path)}```\n"


def rules() -> dict[str, str]:
    """The page of rules with a page for each family. The table of families is the index."""
    head, *families = re.split(r"(?m)^## (?=[a-z0-9-]+$)", _read("docs/rules.md"))
    names = [text.partition("\n")[0] for text in families]
    return {"rules/index.md": head + _contents("rules", names)} | {
        f"rules/{name}.md": "# " + re.sub(r"(?m)^##(#+ )", r"#\1", text)
        for name, text in zip(names, families, strict=True)
    }


def rule_ids() -> list[str]:
    """Every rule of docs/rules.md."""
    return re.findall(r"(?m)^### ([a-z0-9.-]+)$", _read("docs/rules.md"))


def relinked(name: str, text: str, there: frozenset[str]) -> str:
    """The page with its links to files of the repository made links to pages of the site."""
    return "".join(
        part if part.startswith("```") else LINK.sub(lambda link: _moved(link, name, there), part)
        for part in FENCED.split(text)
    )


def _moved(link: re.Match[str], name: str, there: frozenset[str]) -> str:
    """A link of the page `name`, which names files as they are in the repository."""
    path, anchor = link["path"], link["anchor"] or ""
    if not path and not name.startswith("rules/"):
        return link[0]
    at_top = name == "index.md" or name.removesuffix(".md") in PROJECT
    file = posixpath.normpath(posixpath.join("" if at_top else "docs", path or "rules.md"))
    page = _page_of(file, anchor.removeprefix("#"), there)
    return f"]({posixpath.relpath(page, posixpath.dirname(name) or '.')}{anchor})" if page in there else link[0]


def _page_of(file: str, anchor: str, there: frozenset[str]) -> str:
    """The page that a file of the repository became, or the part of it with this anchor."""
    if file == "docs/rules.md":
        families = [page for page in there if page.startswith("rules/") and anchor.startswith(page[6:-3])]
        return max(families, key=len, default="rules/index.md")
    if file.startswith("samples/"):  # a folder has one page
        return f"samples/{file.split('/')[1].removesuffix('.py')}.md"
    return {"README.md": "index.md", "docs/api.md": "api/index.md"}.get(file, file.removeprefix("docs/"))
