"""The webs of the benchmark, made from manuals.

The manuals are those that a system installs by name; `manuals.toml` declares them. A label is a path joined by dots:
the folders of a page, or its chain of chapters as the links to the page above state it. Seeds are chosen by a hash, so
the same manual always gives the same web.
"""

import re
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Literal
from urllib.parse import quote

import msgspec
import xxhash
from msgspec.structs import replace

from opilio.core.errors import OfflineWebError
from opilio.core.records import FetchResult
from opilio.lab.webs.resources import default_cache_folder
from opilio.lab.webs.web import LabProblem
from opilio.store.warc import response_record

DOCUMENTS = Path("/usr/share/doc")
DECLARATIONS = ("manuals.toml", "languages.toml")
SEEDS_PER_SET = 3
SEED_SETS = 2
# A seed links to at least this many pages of its manual.
MIN_SEED_LINKS = 5
# Links to the page above are within these.
MAX_HEAD_BYTES = 30_000
_UP_LINKS = tuple(
    re.compile(pattern)
    for pattern in (
        r'accesskey="u"\s+href="([^"#]+)',
        r'<link href="([^"#]+)" rel="up"',
        r'<link rel="up" href="([^"#]+)',
    )
)
_HREF = re.compile(r'href="([^"#?:]+\.html)')
_LOCAL_HREF = re.compile(rb'href="([A-Za-z0-9._-]+\.html)')
_REFRESH = re.compile(r'http-equiv="refresh"', re.IGNORECASE)


class Manual(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One manual: the package that contains it, its folder below `/usr/share/doc`, and the host that it becomes."""

    package: str
    folder: str
    host: str
    labels: Literal["path", "up"]
    # Pages that are left out, a regular expression of their path.
    skip: str = ""
    unjudged: str = ""  # pages whose relevance is not known
    # Give pages names without words, so that URLs say nothing in any language.
    opaque: bool = False


class ManualTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    description: str
    keywords: tuple[str, ...]
    relevant: tuple[str, ...]


class ManualWeb(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web of one or more manuals. `portal` is a host with one page that links to the first page of each."""

    name: str
    manual: tuple[Manual, ...]
    topic: tuple[ManualTopic, ...]
    portal: str = ""
    # Language -> locale: one web per language, whose folders have these in place of {language} and {locale}.
    languages: Mapping[str, str] = {}

    def in_each_language(self) -> "list[ManualWeb]":
        """The webs of the same manuals in each language, with the same topics and seeds; itself if none is given."""
        webs = []
        for language, locale in self.languages.items():
            folders = [manual.folder.format(language=language, locale=locale) for manual in self.manual]
            manuals = [replace(manual, folder=folder) for manual, folder in zip(self.manual, folders, strict=True)]
            webs.append(replace(self, name=f"{self.name}-{language}", manual=tuple(manuals), languages={}))
        return webs or [self]

    def missing_packages(self, documents: Path = DOCUMENTS) -> list[str]:
        """The packages that are not installed."""
        return [manual.package for manual in self.manual if not (documents / manual.folder).is_dir()]


class _Declarations(msgspec.Struct, forbid_unknown_fields=True):
    web: tuple[ManualWeb, ...]


class _ManualPage(msgspec.Struct, frozen=True):
    url: str
    path: str
    body: bytes
    labels: tuple[str, ...]
    links: int


def manual_webs() -> dict[str, ManualWeb]:
    """The declared webs by name."""
    texts = [(files("opilio.lab.webs") / name).read_text("utf-8") for name in DECLARATIONS]
    declared = [web for text in texts for web in msgspec.convert(tomllib.loads(text), _Declarations).web]
    return {web.name: web for one in declared for web in one.in_each_language()}


def write_manual_web(web: ManualWeb, folder: Path, documents: Path = DOCUMENTS) -> Path:
    """Write pages, labels and topics of a web; OfflineWebError if a package is missing."""
    missing = web.missing_packages(documents)
    if missing:
        raise OfflineWebError(f"web {web.name}: needs packages that are not installed: {' '.join(missing)}")
    pages = [page for manual in web.manual for page in _read_manual(manual, documents, many=len(web.manual) > 1)]
    if web.portal:
        pages.append(_portal_page(web))
    folder.mkdir(parents=True, exist_ok=True)
    header = (("Content-Type", "text/html; charset=utf-8"),)
    with (folder / "web.warc.gz").open("wb") as out:
        for page in pages:
            out.write(response_record(FetchResult(url=page.url, status=200, headers=header, body=page.body)))
    lines = [f"{page.url}\t{'|'.join(page.labels)}\n" for page in pages]
    (folder / "labels.tsv").write_text("".join(lines), "utf-8")
    (folder / "topics.toml").write_text("".join(_topic_lines(web, pages)), "utf-8")
    return folder


def _read_manual(manual: Manual, documents: Path, *, many: bool) -> Iterator[_ManualPage]:
    root = documents / manual.folder
    skipped, unjudged = (re.compile(rule or "(?!)") for rule in (manual.skip, manual.unjudged))
    texts: dict[str, bytes] = {}
    for path in sorted(root.rglob("*.html")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and not skipped.search(name):
            texts[name] = path.read_bytes()
    heads = {name: body[:MAX_HEAD_BYTES].decode("utf-8", "replace") for name, body in texts.items()}
    real = {name: head for name, head in heads.items() if not _REFRESH.search(head)}
    above = {name: _page_above(head) for name, head in real.items()}
    for name in real:
        parts = _chapters(above, name) if manual.labels == "up" else PurePosixPath(name).parts[:-1]
        if many:
            parts = (manual.host.partition(".")[0], *parts)
        labels = ("_unjudged",) if unjudged.search(name) else (".".join(parts) or "_top",)
        found = {str(match) for match in _HREF.findall(texts[name].decode("utf-8", "replace"))}
        body, shown = (_with_opaque_links(texts[name]), _opaque_name(name)) if manual.opaque else (texts[name], name)
        yield _ManualPage(f"http://{manual.host}/{quote(shown)}", name, body, labels, len(found))


def _opaque_name(name: str) -> str:
    return name if name == "index.html" else f"p{zlib.crc32(name.encode()):08x}.html"


def _with_opaque_links(body: bytes) -> bytes:
    """The page with links to the opaque names of the pages in its folder."""
    return _LOCAL_HREF.sub(lambda match: b'href="' + _opaque_name(match[1].decode()).encode(), body)


def _page_above(head: str) -> str:
    for pattern in _UP_LINKS:
        match = pattern.search(head)
        if match:
            return match[1]
    return ""


def _chapters(above: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The pages above a page, outermost first, and the page itself; the first page of the manual does not count."""
    chain: list[str] = []
    while name in above and name != "index.html" and name not in chain:
        chain.append(name)
        name = above[name]
    return tuple(page.removesuffix(".html").replace(".", "-") for page in reversed(chain))


def _portal_page(web: ManualWeb) -> _ManualPage:
    items = "".join(f'<li><a href="http://{m.host}/index.html">{escape(m.package)}</a></li>' for m in web.manual)
    body = f"<html><head><title>Manuals</title></head><body><h1>Manuals</h1><ul>{items}</ul></body></html>"
    return _ManualPage(f"http://{web.portal}/", "", body.encode(), ("_portal",), len(web.manual))


def _topic_lines(web: ManualWeb, pages: Sequence[_ManualPage]) -> Iterator[str]:
    usable = [page for page in pages if page.links >= MIN_SEED_LINKS]
    for topic in web.topic:
        relevant = [page for page in usable if _is_relevant(page, topic)]
        others = [page for page in usable if not _is_relevant(page, topic) and not page.labels[0].startswith("_")]
        listed = ", ".join(map(_quoted, topic.keywords))
        yield f"[[topic]]\nname = {_quoted(topic.name)}\ndescription = {_quoted(topic.description)}\n"
        yield f"keywords = [{listed}]\nrelevant = [{', '.join(map(_quoted, topic.relevant))}]\n"
        for kind, group in (("on-topic", relevant), ("generic", others)):
            order = sorted(group, key=lambda page: zlib.crc32(f"{topic.name} {page.url}".encode()))
            for number in range(SEED_SETS):
                chosen = [page.url for page in order[number * SEEDS_PER_SET : (number + 1) * SEEDS_PER_SET]]
                # Manuals on several hosts are connected only by the portal.
                if web.portal and kind == "generic":
                    chosen[0] = f"http://{web.portal}/"
                urls = ", ".join(map(_quoted, chosen))
                yield f'[[topic.seeds]]\nname = "{kind}-{number + 1}"\nurls = [{urls}]\n'


def _is_relevant(page: _ManualPage, topic: ManualTopic) -> bool:
    return any(label == r or label.startswith(r + ".") for label in page.labels for r in topic.relevant)


def _quoted(text: str) -> str:
    """A TOML string."""
    return msgspec.json.encode(text).decode()


def open_manual_webs(names: Sequence[str], documents: Path = DOCUMENTS) -> tuple[list[Path], list[LabProblem]]:
    """The folders of these webs, written to the cache where they are missing, and those that can't be made."""
    declared, found, problems = manual_webs(), [], []
    for name in names:
        web = declared[name]
        missing = web.missing_packages(documents)
        if missing:
            problems.append(LabProblem("web", name, f"not installed: {' '.join(missing)}; skipped"))
            continue
        digest = xxhash.xxh3_64(msgspec.json.encode(web))
        for manual in web.manual:
            index = documents / manual.folder / "index.html"
            digest.update(index.read_bytes() if index.is_file() else manual.package.encode())
        folder = default_cache_folder() / "manuals" / digest.hexdigest() / name
        # Written last.
        if not (folder / "topics.toml").is_file():
            write_manual_web(web, folder, documents)
        found.append(folder)
    return found, problems
