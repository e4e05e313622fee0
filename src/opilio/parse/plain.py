"""Plain text as a page: blocks end at blank lines, bare addresses are links. Must not: read markup."""

import re

from opilio.model.records import BLOCK_BREAK, LINK_CLOSES, LINK_OPENS, Link, Page, key_of
from opilio.model.urls import canonical
from opilio.parse.blocks import tidy

_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
_ADDRESS = re.compile(r"https?://[^\s<>\"'\x00-\x1f]{3,2000}")
_NOT_ITS_END = ".,;:!?)]}*_~|"


def plain_page(url: str, text: str, encoding: str, limit: int) -> Page:
    """A page of plain text; the caller adds what the headers say."""
    unix = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks = [b for b in map(tidy, _BLANK_LINES.split(unix)) if b]
    links: list[Link] = []
    beyond = 0

    def mark(found: re.Match[str]) -> str:
        nonlocal beyond
        address = found[0].rstrip(_NOT_ITS_END)
        if found[0][len(address) :].startswith(")") and address.count("(") > address.count(")"):
            address += ")"  # Wren_(bird): it was opened inside
        target = canonical(address)
        if target is None or target == url:
            return found[0]
        if len(links) >= limit:
            beyond += 1
            return found[0]
        host = target.split("/", 3)[2]
        links.append(Link(url=target, key=key_of(target), host=host, anchor=address, index=len(links)))
        return f"{LINK_OPENS}{address}{LINK_CLOSES}{found[0][len(address) :]}"

    flow = BLOCK_BREAK.join([_ADDRESS.sub(mark, block) for block in blocks])
    flags = (False,) * (flow.count(BLOCK_BREAK) + 1)
    return Page(url=url, flow=flow, boilerplate=flags, links=tuple(links), encoding=encoding, links_dropped=beyond)
