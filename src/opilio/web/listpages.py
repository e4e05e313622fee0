"""Plain lists of a collection: its pages, its seeds, what went wrong."""

from typing import Any

from opilio.crawl.agentsview import agents_of, cards_of
from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.urls import host_of
from opilio.store.collection import Collection
from opilio.web.desk import Asked, Desk, Page
from opilio.web.eventpage import told
from opilio.web.params import NOTE, PAGE, SIZE, Param
from opilio.web.view import View

_PAGE = ("url", "host", "title", "score", "relevant", "genre", "language", "depth", "words", "fetched_at")
_ORDERS = {"score": "score DESC, seq", "newest": "seq DESC", "oldest": "seq"}
_STATES = ("queued", "waiting", "done", "failed", "dropped")
EXAMPLES = 200


def pages(desk: Desk, asked: Asked) -> View:
    wanted, page, size = asked.values, asked.values["page"], asked.values["size"]
    where, values = ["duplicate_of = 0"], list[Any]()
    if wanted["relevant"] != "all":
        where.append("relevant = ?")
        values.append(int(wanted["relevant"] == "yes"))
    if wanted["text"]:
        where.append("instr(lower(title || ' ' || url), ?) > 0")
        values.append(wanted["text"].lower())
    sql = (
        f"SELECT {', '.join(_PAGE)} FROM page WHERE {' AND '.join(where)}"
        f" ORDER BY {_ORDERS[wanted['sort']]} LIMIT ? OFFSET ?"
    )
    with desk.open(asked.name) as collection:
        rows = collection.connection.execute(sql, (*values, size + 1, (page - 1) * size)).fetchall()
    found = [dict(zip(_PAGE, row, strict=True)) | {"relevant": bool(row[4])} for row in rows]
    data = {"pages": found[:size], "more": len(found) > size, "page": page, "values": wanted}
    return View(template="pages.html", data=data, title="Pages", rows="pages")


def seeds(desk: Desk, asked: Asked) -> View:
    with desk.open(asked.name) as collection:
        rows = collection.connection.execute(
            "SELECT s.key, s.url, s.priority, s.sources, p.title, p.score, p.relevant FROM seed AS s"
            " LEFT JOIN page AS p ON p.key = s.key ORDER BY s.priority, s.url LIMIT 1000"
        ).fetchall()
        data = {"seeds": [_seed(collection, row) for row in rows], "enquiries": _enquiries(collection)}
    return View(template="seeds.html", data=data, title="Seeds", rows="seeds")


def _enquiries(collection: Collection) -> list[dict[str, Any]]:
    """What engines were asked: the query, who answered, who did not and why; the newest first."""
    rows = collection.connection.execute(
        "SELECT id, at, kind, data FROM event WHERE kind = 'SeedsFound' ORDER BY id DESC LIMIT ?", (EXAMPLES,)
    )
    return [{"at": row[1], **told(*row)["data"]} for row in rows]


def _seed(collection: Collection, row: tuple[Any, ...]) -> dict[str, Any]:
    """A seed, who proposed it, and what became of it."""
    key, url, priority, sources, title, score, relevant = row
    entry = SqliteFrontier(collection.connection).entry(host_of(url), key)
    return {
        "url": url,
        "priority": priority,
        "sources": [s.strip() for s in sources.split(",") if s.strip()],
        "title": title or "",
        "score": score,
        "relevant": None if relevant is None else bool(relevant),
        "state": entry.state.value if entry else "unknown",
        "reason": entry.reason if entry else "",
    }


def errors(desk: Desk, asked: Asked) -> View:
    """What went wrong, in groups, with examples."""
    with desk.open(asked.name) as collection:
        tally = desk.tally(collection)
        with tally.lock:
            groups = [{"kind": kind, "count": count} for kind, count in tally.failures.most_common()]
            fetched = tally.fetched
        rows = collection.connection.execute(
            "SELECT url, state, coalesce(reason, '') FROM frontier_url WHERE state IN (3, 4) LIMIT ?", (EXAMPLES,)
        ).fetchall()
    examples = [{"url": url, "state": _STATES[state], "reason": reason} for url, state, reason in rows]
    examples.sort(key=lambda row: (row["state"] != "failed", row["reason"], row["url"]))
    data = {"errors": groups, "examples": examples, "fetched": fetched}
    return View(template="errors.html", data=data, title="Errors", rows="examples")


def agents(desk: Desk, asked: Asked) -> View:
    """The agents of a crawl by several, and how each stands; none where one crawler did it all."""
    folder = desk.shelf.folder(asked.name)
    with desk.open(asked.name) as collection:
        several = bool(cards_of(collection))
    data = {"agents": agents_of(folder) if several else []}
    return View(template="agents.html", data=data, title="Agents", rows="agents")


PAGES = (
    Page(
        path="/c/{name}/pages",
        show=pages,
        about="The pages of a collection.",
        params=(
            PAGE,
            SIZE,
            Param(name="relevant", about="Which pages.", kind="choice", choices=("yes", "no", "all"), default="yes"),
            Param(name="sort", about="The order.", kind="choice", choices=tuple(_ORDERS), default="score"),
            Param(name="text", about="Only pages with this in title or address."),
            NOTE,
        ),
    ),
    Page(path="/c/{name}/seeds", show=seeds, about="Where the crawl began, and who proposed that.", params=(NOTE,)),
    Page(path="/c/{name}/agents", show=agents, about="The agents of a crawl by several.", params=(NOTE,)),
    Page(path="/c/{name}/errors", show=errors, about="What went wrong, in groups, with examples.", params=(NOTE,)),
)
