"""Reads the fenced blocks of a page, with the comment that stands before a block.

<!-- not run: reason -->   the block is not run
<!-- file: name -->        the block is written to a file of that name before the next command
"""

import re
from pathlib import Path
from typing import NamedTuple

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>not run|file): (?P<text>[^\n]+?) -->\n)?^```(?P<kind>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    kind: str
    body: str
    mark: str
    text: str

    @property
    def runs(self) -> bool:
        return self.kind == "sh" and self.mark != "not run"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(m["kind"], m["body"], m["mark"] or "", m["text"] or "") for m in found]
