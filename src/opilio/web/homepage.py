"""The first page: a search box and every collection with its state; and the page about the interface itself."""

from typing import Any

from opilio.model.errors import CollectionError
from opilio.web.charts import spark
from opilio.web.curves import harvest_curve
from opilio.web.desk import Asked, Desk, Page
from opilio.web.params import NOTE
from opilio.web.standing import standing
from opilio.web.view import View


def home(desk: Desk, _asked: Asked) -> View:
    found = [_card(desk, name) for name in desk.shelf.names]
    return View(template="home.html", data={"collections": found}, rows="collections")


def _card(desk: Desk, name: str) -> dict[str, Any]:
    try:
        with desk.open(name) as collection:
            tally = desk.tally(collection)
            with tally.lock:
                line = spark(harvest_curve(tally.relevant, tally.times, 60))
            return {"name": name, "problem": "", "_spark": line, **standing(collection, tally, desk.clock.now())}
    except CollectionError as error:
        return {"name": name, "problem": str(error)}


def about(_desk: Desk, _asked: Asked) -> View:
    return View(template="help.html", data={}, title="Keys and API")


PAGES = (
    Page(path="/", show=home, about="Every collection with its state.", params=(NOTE,)),
    Page(path="/help", show=about, about="Keys, addresses and forms of the data.", params=(NOTE,), table=False),
)
