"""Writes a web of real pages with genres, for experiment s3-39-real (S3-39).

    python benchmarks/topics/genre_web.py DIR

The documentation wikis of git-annex and ikiwiki, as the Debian packages of these names install them: half of the pages
of the first have comments of readers, the second has a folder of news.
"""

import sys
from pathlib import Path

import tomli_w

from opilio.core.records import FetchResult
from opilio.store.warc import response_record

DOCUMENTS = Path("/usr/share/doc")
ANNEX, WIKI = "http://git-annex.example", "http://ikiwiki.example"
GENERIC = {"name": "generic-1", "urls": [f"{ANNEX}/index.html", f"{WIKI}/index.html"]}
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
            header = (("Content-Type", "text/html; charset=utf-8"),)
            records.append(response_record(FetchResult(url=f"{base}/{name}", status=200, headers=header, body=body)))
            labels.append(f"{base}/{name}\t{site}{genre(name, body)}\n")
    web.mkdir(parents=True, exist_ok=True)
    (web / "web.warc.gz").write_bytes(b"".join(records))
    (web / "labels.tsv").write_text("".join(labels), "utf-8")
    (web / "topics.toml").write_text(tomli_w.dumps({"topic": TOPICS}), "utf-8")


def genre(name: str, body: bytes) -> str:
    """By the folder, and by what the wiki marks as a comment."""
    if name.startswith("news/"):
        return "-news"
    return "-discussion" if b'class="comment' in body else ""


if __name__ == "__main__":
    main()
