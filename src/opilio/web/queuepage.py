"""What comes next: the best queued URLs with their context, how scores spread, and what a person wants otherwise."""

from opilio.crawl.topicedit import take_up
from opilio.crawl.wishes import ask
from opilio.model.errors import UsageError
from opilio.store.locks import CRAWL
from opilio.web.charts import histogram
from opilio.web.desk import Action, Asked, Desk, Done, Page
from opilio.web.entries import best_entries, queued_scores
from opilio.web.params import NOTE, PAGE, SIZE, Param
from opilio.web.view import View

DEEPEST = 2_000  # entries that can be paged through: what is behind them changes faster than anybody reads
WORDS = ("ban", "exclude", "delay", "boost", "boost_host", "unboost_host")


def queue(desk: Desk, asked: Asked) -> View:
    page, size = asked.values["page"], asked.values["size"]
    if page * size > DEEPEST:
        raise UsageError(f"page = {page}: only the first {DEEPEST} queued URLs can be looked through")
    with desk.open(asked.name) as collection:
        entries = best_entries(collection, (page - 1) * size, size + 1, desk.clock.now())
        scores = queued_scores(collection.connection)
        queued = collection.connection.execute("SELECT queued FROM frontier_count").fetchone()
    data = {
        "queue": entries[:size],
        "queued": queued[0] if queued else 0,
        "page": page,
        "more": len(entries) > size and (page + 1) * size <= DEEPEST,
        "histogram": histogram(scores),
    }
    return View(template="queue.html", data=data, title="Queue", rows="queue")


def wish(desk: Desk, asked: Asked) -> Done:
    """Ban, slow down or boost a host, exclude a pattern, boost a URL."""
    folder, word, target = desk.shelf.folder(asked.name), asked.values["do"], asked.values["target"]
    data = str(asked.values["seconds"]).encode() if word == "delay" else b""
    ask(folder, word, desk.clock.now(), target, data)
    writer = take_up(folder, desk.clock.now())
    when = {"": "from now on", CRAWL: "within a moment, for the crawl that is running"}.get(
        writer, "for the next crawl"
    )
    said = {
        "ban": f"{target}: nothing of this host is asked for any more",
        "exclude": f"{target}: addresses like this are left out",
        "delay": f"{target}: at least {asked.values['seconds']:g} seconds between two requests",
        "boost": f"{target}: comes next",
        "boost_host": f"{target}: what waits here goes before all others, as often as politeness allows",
        "unboost_host": f"{target}: waits in line again",
    }[word]
    return Done(said=f"{said}. This holds {when}.", back=asked.back(f"/c/{asked.name}/queue"))


PAGES = (
    Page(
        path="/c/{name}/queue",
        show=queue,
        about="The URLs that come next, best first.",
        params=(PAGE, SIZE, NOTE),
    ),
)
ACTIONS = (
    Action(
        path="/c/{name}/wish",
        act=wish,
        about="Ban, slow down or boost a host, exclude a pattern of addresses, or boost a queued URL.",
        params=(
            Param(name="do", about="What to do.", kind="choice", choices=WORDS, required=True),
            Param(name="target", about="The host, the pattern (such as */tag/*), or the URL.", required=True),
            Param(name="seconds", about="With delay: the pause.", kind="number", default=10.0, least=0, most=86_400),
            Param(name="back", about="The page a browser goes to next.", kind="text"),
        ),
    ),
)
