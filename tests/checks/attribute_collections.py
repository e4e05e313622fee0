"""A small collection written by the store itself (birds link to birds, tax offices to tax offices), and a web."""

from pathlib import Path

import msgspec
import tomli_w

from checks import small_webs
from opilio.core.records import Analysis, FetchResult, Lead, Outcome, Verdict, url_key
from opilio.core.urls import host_of
from opilio.dedup import create_dedup_tables as create_seen
from opilio.engine.wiring.settings import complete_settings
from opilio.fetch.decoding import RecordedResponse
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.store.collection import Collection
from opilio.store.warc import WarcWriter, response_record
from opilio.store.writer import CollectionWriter
from opilio.topic.setup import resolve_settings

BIRDS = ("wren", "robin", "thrush", "finch", "warbler", "sparrow", "starling", "swallow")
TAXES = ("income", "customs", "excise", "audit", "pension", "estate", "payroll", "tariff")


def bird(name: str) -> str:
    return f"http://{name}.example/bird/{name}.html"


def tax(name: str) -> str:
    return f"http://{name}.example/office/{name}.html"


def pages() -> list[tuple[str, bool, str]]:
    """(url, relevant, HTML); every page links to all others of its kind, and one of each kind to one of the other."""
    made = []
    for at, name in enumerate(BIRDS):
        links = "".join(f'<li>a bird of hedge and nest <a href="{bird(n)}">{n} bird</a></li>' for n in BIRDS)
        links += f'<li><a href="{tax(TAXES[at])}">duty of the {TAXES[at]} office</a></li>'
        text = f"the {name} is a bird; the bird sings, builds a nest and lays an egg in the hedge"
        made.append((bird(name), True, f"<title>{name} bird</title><p>{text}</p><ul>{links}</ul>"))
    for name in TAXES:
        links = "".join(f'<li>duty and law <a href="{tax(n)}">{n} office</a></li>' for n in TAXES)
        text = f"the {name} office collects duty by law; pay your duty to the office in time"
        made.append((tax(name), False, f"<title>{name} office</title><p>{text}</p><ul>{links}</ul>"))
    return made


def outcome(url: str, relevant: bool, html: str) -> Outcome:
    body = f"<html><body>{html}</body></html>".encode()
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    fetched = FetchResult(url=url, status=200, headers=headers, body=body, started_at=1.0)
    analysis = Analysis(verdict=Verdict(score=float(relevant), relevant=relevant), warc_record=response_record(fetched))
    lead = Lead(url=url, key=url_key(url), host=host_of(url))
    return Outcome(lead=lead, fetched=msgspec.structs.replace(fetched, body=b""), analysis=analysis)


def write_collection(folder: Path, found: list[tuple[str, bool, str]] | None = None) -> Path:
    tree = {"strategy": "s1-bayes", "topic": {"name": "birds"}, "seeds": {"urls": [bird("wren")]}}
    config = tomli_w.dumps(msgspec.to_builtins(complete_settings(resolve_settings(tree, "test"))))
    collection = Collection.create(folder, config, (create_frontier, create_seen))
    writer = CollectionWriter(collection, WarcWriter(folder, "test", 1 << 30))
    writer.resume()
    with collection.unit_of_work():
        writer.write_outcomes([outcome(*page) for page in (pages() if found is None else found)])
    writer.close()
    collection.close()
    return folder


def crowded_web(size: int = 40) -> dict[str, RecordedResponse]:
    """Birds and trains in turns; every page leads to the next eight, so that each has many parents."""
    names = [f"http://{'trains' if at % 3 else 'birds'}.example/{'no-' * (at % 2)}bird-{at}" for at in range(size)]
    web = {"http://birds.example/": small_webs.page(small_webs.BIRDS, names[:3])}
    for at, url in enumerate(names):
        text = f"{small_webs.TRAINS if at % 3 else small_webs.BIRDS} {small_webs.word(at)}"
        web[url] = small_webs.page(
            text, names[at + 1 : at + 9], title=f"bird {small_webs.word(at)}" if at % 3 == 0 else ""
        )
    return web
