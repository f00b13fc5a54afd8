"""Reads pages of HTML: whether every tag is closed, and what they have."""

from __future__ import annotations

from html.parser import HTMLParser

EMPTY = frozenset({"meta"})


class Reader(HTMLParser):
    """The tags that are open, the attributes of all, and the lines of each column as (key, text)."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.columns: list[list[tuple[str | None, str]]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in EMPTY:
            self.open.append(tag)
        if tag == "section":
            self.columns.append([])
        if ("class", "l") in attrs and self.columns:
            self.columns[-1].append((dict(attrs).get("data-p"), ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self.columns and self.columns[-1] and self.open[-1:] == ["div"]:
            key, text = self.columns[-1].pop()
            self.columns[-1].append((key, text + data))


def read(text: str) -> Reader:
    """The page, whose tags are all closed."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader
