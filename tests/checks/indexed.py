"""Collections with pages of our own wording, made through the store as a crawl does, without a web."""

from collections.abc import Iterable, Sequence
from contextlib import closing
from html import escape
from pathlib import Path

import msgspec
import numpy as np

from opilio.core.records import Analysis, FetchResult, Lead, LinkColumns, Outcome, PageChange, Reason, Verdict, url_key
from opilio.core.urls import host_of
from opilio.dedup import create_dedup_tables as create_seen
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.rank.link_scores import pack
from opilio.store.collection import Collection, collection_exists
from opilio.store.warc import WarcWriter, response_record
from opilio.store.writer import CollectionWriter


class Sheet(msgspec.Struct, frozen=True, kw_only=True):
    """A page to be stored."""

    url: str
    title: str = ""
    text: str = ""
    heading: str = ""
    language: str = "en"
    genre: str = ""
    score: float = 0.5
    noindex: bool = False
    links: Sequence[tuple[str, str]] = ()  # url, anchor
    at: float = 1_700_000_000.0
    duplicate_of: str = ""


PRAISE = "Wonderful, beautiful, excellent, happy, lovely."
A, B = "http://a.example", "http://b.example"
BIRD_PAGES = (
    Sheet(url=f"{A}/wren", title="The wren", text="A wren is a small brown bird. It sings loudly.", score=0.9),
    Sheet(url=f"{A}/robin", title="Robins", text="Robins are birds. The song of a robin is soft.", score=0.7),
    Sheet(
        url=f"{B}/train", title="Trains", text=f"A train runs on rails; a small toy train does too. {PRAISE}", score=0.1
    ),
    Sheet(url=f"{B}/zaun", title="Zaunkönige", text="Die Zaunkönige singen in den Wäldern.", language="de", score=0.8),
    Sheet(url=f"{B}/tokyo", title="東京の鳥", text="東京都にはたくさんの鳥がいます。", language="ja", genre="news"),
    Sheet(url=f"{B}/copy", title="The wren", text="A wren is a small brown bird.", duplicate_of=f"{A}/wren"),
    Sheet(url=f"{B}/hidden", title="Hidden wren", text="Do not index this wren.", noindex=True),
)
# Queries, and the pages of `BIRD_PAGES` that they find in every kind of index.
QUERIES: tuple[tuple[str, set[str]], ...] = (
    ("wrens", {"wren"}),  # stems; neither the copy nor the page that must not be indexed
    ("loud", {"wren"}),
    ("Zaunkönig Wald", {"zaun"}),  # stems of another language
    ("zaunkonige", {"zaun"}),  # without the accent
    ("東京", {"tokyo"}),
    ("鳥", {"tokyo"}),  # one character of a run without spaces
    ("title:京", {"tokyo"}),
    ("馬", set()),
    ('"small brown bird"', {"wren"}),
    ('"brown small"', set()),
    ('"small train"~1', {"train"}),
    ("title:robin", {"robin"}),
    ("title:birds", set()),
    ("small -toy", {"wren"}),
    ("small AND NOT toy", {"wren"}),
    ("wren OR robin", {"wren", "robin"}),
    ("bird (wren OR train)", {"wren"}),
    ("rob*", {"robin"}),
    ("tarin~", {"train"}),
    ("language:de", {"zaun"}),
    ("host:a.example bird", {"wren", "robin"}),
    ("a.example", {"wren", "robin"}),
    ("www.A.example song", {"robin"}),
    ("a.example/wren", {"wren"}),
    ("relevant:no", {"train"}),
    ("polarity:positive", {"train"}),  # S3-F1
    ("tone:positive", {"train"}),
    ("url:tokyo", {"tokyo"}),
    ("url:b12.html", set()),
    (f"({A}/wren OR {B}/train) -toy", {"wren"}),
    (f"{A}/nowhere", set()),
    ("the wren", {"wren"}),  # a stop word is not asked for
)


def store(folder: Path, sheets: Iterable[Sheet]) -> Path:
    """Add pages to a collection, which is made where it is missing: one commit."""
    made = (
        Collection.open_for_writing(folder)
        if collection_exists(folder)
        else Collection.create(folder, "", [create_frontier, create_seen])
    )
    with closing(made):
        writer = CollectionWriter(made, WarcWriter(folder, "test"))
        writer.resume()
        with made.unit_of_work():
            writer.write_outcomes([_outcome(sheet) for sheet in sheets])
        writer.close()
    return folder


def lose(folder: Path, url: str, at: float) -> None:
    """A page is gone for good."""
    with closing(Collection.open_for_writing(folder)) as made:
        writer = CollectionWriter(made, None)
        writer.resume()
        lead = Lead(url=url, key=url_key(url), host=host_of(url))
        with made.unit_of_work():
            writer.write_outcomes(
                [Outcome(lead=lead, fetched=FetchResult(url=url, status=410, started_at=at), change=PageChange.GONE)]
            )


def judge(folder: Path, url: str, relevant: bool) -> None:
    """A label of a page, applied as a crawl does it."""
    with closing(Collection.open_for_writing(folder)) as made:
        writer = CollectionWriter(made, None)
        writer.resume()
        with made.unit_of_work():
            made.connection.execute(
                "INSERT INTO label (key, relevant, at, sample) VALUES (?, ?, 0, x'')", (url_key(url), relevant)
            )
            writer.set_label(url_key(url), relevant, Reason("labelled by hand", float(relevant)))
            made.set_meta(labels_taken=made.connection.execute("SELECT max(id) FROM label").fetchone()[0])


def _outcome(sheet: Sheet) -> Outcome:
    links = "".join(f'<p><a href="{escape(url)}">{escape(anchor)}</a></p>' for url, anchor in sheet.links)
    body = f"<title>{escape(sheet.title)}</title><h1>{escape(sheet.heading)}</h1><p>{escape(sheet.text)}</p>{links}"
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    fetched = FetchResult(
        url=sheet.url, status=200, headers=headers, body=body.encode("utf-8", "surrogatepass"), started_at=sheet.at
    )
    analysis = Analysis(
        title=sheet.title,
        language=sheet.language,
        genre=sheet.genre,
        noindex=sheet.noindex,
        verdict=Verdict(score=sheet.score, relevant=sheet.score >= 0.5),
        links=_links(sheet.links),
        warc_record=response_record(fetched),
    )
    lead = Lead(url=sheet.url, key=url_key(sheet.url), host=host_of(sheet.url))
    copy = url_key(sheet.duplicate_of) if sheet.duplicate_of else 0
    return Outcome(lead=lead, fetched=msgspec.structs.replace(fetched, body=b""), analysis=analysis, duplicate_of=copy)


def _links(links: Sequence[tuple[str, str]]) -> bytes:
    urls = [url for url, _ in links]
    zeros = np.zeros(len(links), dtype=np.float32).tobytes()
    return pack(
        LinkColumns(
            urls=urls,
            hosts=[host_of(url) for url in urls],
            anchors=[anchor for _, anchor in links],
            keys=np.array([url_key(url) for url in urls], dtype=np.int64).tobytes(),
            scores=zeros,
            names=[],
            parts=b"",
            dropped={},
        )
    )


def spoil(folder: Path, file: str) -> None:
    """Another file in the place of one. Never the same file cut short: the engine maps its files into memory, its
    threads read them when they like, and the kernel ends a process that reads what has gone from under a map."""
    (path,) = (folder / "index").glob(file)
    junk = path.with_name(f"{path.name}.junk")
    junk.write_bytes(b"junk\n" * 1_000)
    junk.replace(path)
