"""Traps of a synthetic web: pages made on demand that never end. Pure.

A calendar whose months link to the next ones, a shop whose facets combine without bound, and a
catalogue whose every link carries a new session id.
"""

import random
import re
from urllib.parse import parse_qsl, urlencode

_MONTH = re.compile(r"/calendar/(\d{1,6})/(\d{1,2})/(?:(\d{1,2})\.html)?")
_FACETS = {"colour": ("red", "green", "blue"), "size": ("small", "large"), "sort": ("price", "name"), "view": ("list",)}
_ITEMS = 30


def trap_links(path: str, query: str) -> list[tuple[str, str]] | None:
    """The links (address, anchor) of a trap's page, or None where the address is in no trap."""
    if path.startswith("/calendar/"):
        return _calendar(path)
    if path == "/facets/":
        return _facets(query)
    if path.startswith("/session/"):
        return _session(path, query)
    return None


def _calendar(path: str) -> list[tuple[str, str]] | None:
    if path == "/calendar/":
        return [("/calendar/2024/1/", "This month")]
    found = _MONTH.fullmatch(path)
    if found is None or not 1 <= int(found[2]) <= 12:
        return None
    months = int(found[1]) * 12 + int(found[2]) - 1
    if found[3]:
        return [(f"/calendar/{found[1]}/{found[2]}/", "Back to the month")]
    later, earlier = (f"/calendar/{m // 12}/{m % 12 + 1}/" for m in (months + 1, max(0, months - 1)))
    days = [(f"{path}{day}.html", f"Events on day {day}") for day in range(1, 29)]
    return [(later, "Next month"), (earlier, "Previous month"), *days]


def _facets(query: str) -> list[tuple[str, str]]:
    chosen = dict(parse_qsl(query))
    page = int(chosen.get("page", "1")) if chosen.get("page", "1").isdecimal() else 1
    ways = [{**chosen, name: value} for name, values in _FACETS.items() for value in values]
    ways.append({**chosen, "page": str(page + 1)})
    return [(f"/facets/?{urlencode(way)}", f"Only {list(way.values())[-1]}") for way in ways]


def _session(path: str, query: str) -> list[tuple[str, str]]:
    rng = random.Random(f"{path} {query}")
    items = rng.sample(range(_ITEMS), 6)
    return [(f"/session/item-{item}?sid={rng.getrandbits(48):012x}", f"Item {item}") for item in items]
