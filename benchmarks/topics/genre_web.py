"""Writes a web of real pages with genres, for experiment s3-39-real (S3-39).

    python benchmarks/topics/genre_web.py DIR

The documentation wikis of git-annex and ikiwiki, as the Debian packages of these names install them: half of the pages
of the first have comments of readers, the second has a folder of news. And the documentation and blog of ent, as
golang-entgo-ent-dev installs them: Markdown, without the menu and the list of posts that its site generator adds. Both
are added here, and links from each post to the one before and after it.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import markdown
import tomli_w

from opilio.core.records import FetchResult
from opilio.store.warc import response_record

DOCUMENTS = Path("/usr/share/doc")
ENT_SOURCE = Path("/usr/share/gocode/src/entgo.io/ent/doc")
ANNEX, WIKI, ENT = "http://git-annex.example", "http://ikiwiki.example", "http://ent.example"
GENERIC = {"name": "generic-1", "urls": [f"{ANNEX}/index.html", f"{WIKI}/index.html", f"{ENT}/docs/getting-started"]}
TOPICS = [
    {
        "name": "git-annex discussions",
        "description": "questions and comments of users about keeping large files in git with git-annex",
        "keywords": ["git-annex", "remote", "repository", "file"],
        "genres": ["discussions"],
        "relevant": ["git-annex-discussion"],
        "seeds": [
            {"name": "on-topic-1", "urls": [f"{ANNEX}/tips.html", f"{ANNEX}/install.html"]},
            {"name": "on-topic-2", "urls": [f"{ANNEX}/walkthrough.html", f"{ANNEX}/special_remotes.html"]},
            GENERIC,
        ],
    },
    {
        "name": "ikiwiki news",
        "description": "news and announcements of ikiwiki, a wiki compiler: new versions, new features",
        "keywords": ["ikiwiki", "version", "wiki"],
        "genres": ["news"],
        "relevant": ["ikiwiki-news"],
        "seeds": [
            {"name": "on-topic-1", "urls": [f"{WIKI}/news/openid.html", f"{WIKI}/news/stylesheets.html"]},
            {"name": "on-topic-2", "urls": [f"{WIKI}/news/donations.html", f"{WIKI}/news.html"]},
            GENERIC,
        ],
    },
    {
        "name": "ent blog",
        "description": "posts of developers about ent, an entity framework for Go: new features and how to use them",
        "keywords": ["ent", "schema", "graphql", "migration"],
        "genres": ["blogs"],
        "relevant": ["ent-blog"],
        "seeds": [
            {
                "name": "on-topic-1",
                "urls": [f"{ENT}/blog/2019/10/03/introducing-ent", f"{ENT}/blog/2021/10/14/introducing-entcache"],
            },
            {
                "name": "on-topic-2",
                "urls": [f"{ENT}/blog/2021/09/10/openapi-generator", f"{ENT}/docs/schema-def"],
            },
            GENERIC,
        ],
    },
]


def main() -> None:
    web = Path(sys.argv[1])
    records, labels = [], []
    for site, base in (("git-annex", ANNEX), ("ikiwiki", WIKI)):
        folder = DOCUMENTS / site / "html"
        if not folder.is_dir():
            sys.exit(f"{folder}: is missing; install it with 'apt install {site}'")
        for path in sorted(folder.rglob("*.html")):
            name, body = path.relative_to(folder).as_posix(), path.read_bytes()
            records.append(record(f"{base}/{name}", body))
            labels.append(f"{base}/{name}\t{site}{genre(name, body)}\n")
    for url, label, body in ent_pages():
        records.append(record(url, body))
        labels.append(f"{url}\t{label}\n")
    web.mkdir(parents=True, exist_ok=True)
    (web / "web.warc.gz").write_bytes(b"".join(records))
    (web / "labels.tsv").write_text("".join(labels), "utf-8")
    (web / "topics.toml").write_text(tomli_w.dumps({"topic": TOPICS}), "utf-8")


def record(url: str, body: bytes) -> bytes:
    headers = (("Content-Type", "text/html; charset=utf-8"),)
    return response_record(FetchResult(url=url, status=200, headers=headers, body=body))


def ent_pages() -> Iterator[tuple[str, str, bytes]]:
    """URL, label and HTML of each page, with the addresses of entgo.io: /docs/NAME and /blog/YEAR/MONTH/DAY/NAME."""
    if not ENT_SOURCE.is_dir():
        sys.exit(f"{ENT_SOURCE}: is missing; install it with 'apt install golang-entgo-ent-dev'")
    docs = [(f"{ENT}/docs/{path.name.split('.')[0]}", path) for path in sorted(ENT_SOURCE.glob("md/*.md*"))]
    posts = [
        (f"{ENT}/blog/{year}/{int(month):02}/{int(day):02}/{name.split('.')[0]}", path)
        for path in sorted((ENT_SOURCE / "website" / "blog").glob("*.md*"))
        for year, month, day, name in [path.name.split("-", 3)]
    ]
    for url, path in docs:
        yield url, "ent", page(*read_markdown(path))
    for place, (url, path) in enumerate(posts):
        near = [
            link(at, read_markdown(other)[0])
            for at, other in (posts[max(0, place - 1) : place] + posts[place + 1 : place + 2])
        ]
        yield url, "ent-blog", page(*read_markdown(path), "".join(near))
    listed = "".join(f"<li>{link(url, read_markdown(path)[0])}</li>" for url, path in reversed(posts))
    yield f"{ENT}/blog", "ent", page("Blog", f"<ul>{listed}</ul>")


def read_markdown(path: Path) -> tuple[str, str]:
    """Title and HTML, with addresses within the site."""
    _, front, text = path.read_text("utf-8").split("---\n", 2)
    title = re.search(r"^title: (.*)$", front, re.MULTILINE)
    html = markdown.markdown(text, extensions=["fenced_code", "tables"])
    html = html.replace("https://entgo.io/", f"{ENT}/")
    html = re.sub(r'href="(?!\w+:|/)([\w-]+)\.mdx?', rf'href="{ENT}/docs/\1', html)
    return title[1].strip("\"'") if title else path.stem, html


def link(url: str, text: str) -> str:
    return f'<a href="{url}">{text}</a>'


def page(title: str, content: str, more: str = "") -> bytes:
    menu = link(f"{ENT}/docs/getting-started", "Docs") + link(f"{ENT}/blog", "Blog")
    return (
        f"<html><head><title>{title}</title></head><body><nav>{menu}</nav><main><h1>{title}</h1>{content}</main>"
        f"<nav>{more}</nav></body></html>"
    ).encode()


def genre(name: str, body: bytes) -> str:
    """By the folder, and by what the wiki marks as a comment."""
    if name.startswith("news/"):
        return "-news"
    return "-discussion" if b'class="comment' in body else ""


if __name__ == "__main__":
    main()
