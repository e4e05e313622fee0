"""Translates a web of the lab word by word, to measure topics in another language than the pages.

python benchmarks/lab/translate_web.py WEB INTO {de,fr} [--topics]

It needs Debian's dict-freedict-eng-deu or dict-freedict-eng-fra. URLs become numbers, so that they say nothing in
English. Words that the dictionary does not have are left out; names (with a capital) stay. With `--topics`, the
descriptions and keywords of the topics are translated too: the same web for topics in its own language.
"""

import argparse
import gzip
import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urljoin

from opilio.core.records import FetchResult
from opilio.lab.webs.web import WarcWeb
from opilio.store.warc import response_record

DICTIONARIES = {
    "de": Path("/usr/share/dictd/freedict-eng-deu.dict.dz"),
    "fr": Path("/usr/share/dictd/freedict-eng-fra.dict.dz"),
}
SITE = "http://encyclopedia.example"
MAX_WORDS = 3  # of a translation; longer ones are explanations
HEADWORD = re.compile(r"([a-z]+)(?: /[^/]*/)?(?: <[^>]*>)?\s*")
REMARKS = re.compile(r"<[^>]*>|\[[^\]]*\]|\([^)]*\)|^\s*\d+\.\s*")
ENDINGS = (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ing", "e"), ("ed", ""), ("ed", "e"), ("ly", ""))
WORD = re.compile(r"[^\W\d_]+")
TAG = re.compile(r"(<[^>]*>)")
UNSEEN = re.compile(r"<!--.*?-->|<script.*?</script>|<style.*?</style>|<meta name=[^>]*>|<link[^>]*>", re.DOTALL)
ENGLISH_ATTRIBUTE = re.compile(r'\s(?:alt|title|class|id|src)="[^"]*"')
HREF = re.compile(r'\shref="([^"]*)"')


def read_dictionary(language: str) -> dict[str, str]:
    """For each English word the translation that is most used in the dictionary itself."""
    text = gzip.decompress(DICTIONARIES[language].read_bytes()).decode("utf-8", "replace")
    lines = text.split("\n")
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for line, following in pairwise(lines):
        headword = HEADWORD.fullmatch(line)
        translation = re.split("[,;]", REMARKS.sub("", following))[0].strip()
        if (
            headword
            and 0 < len(translation.split()) <= MAX_WORDS
            and not translation.startswith(("see:", "Syn", "Note"))
        ):
            found[headword[1]][translation] += 1
    used = Counter(WORD.findall(text))
    return {
        word: max(several, key=lambda t: (" " not in t, several[t] * used[t.split()[-1]] ** 0.5))
        for word, several in found.items()
    }


def base_forms(word: str) -> Iterator[str]:
    yield word
    for ending, instead in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) > 2:
            yield word.removesuffix(ending) + instead


class Urls:
    """The new URL of each page. Different spellings of a URL get the same one."""

    def __init__(self, pages: Sequence[str]) -> None:
        self._new: dict[str, str] = {}
        for url in pages:
            self[url]
        self._pages = len(self._new)

    def __getitem__(self, url: str) -> str:
        spelling = unquote(url).lower().partition("://")[2]
        return self._new.setdefault(spelling, f"{SITE}/{len(self._new)}.html")

    def is_page(self, url: str) -> bool:
        """Whether the web has the page; pages that it only links to come later."""
        return int(self[url].removeprefix(f"{SITE}/").removesuffix(".html")) < self._pages


class Translator:
    """Translates texts and pages."""

    def __init__(self, language: str, urls: Urls) -> None:
        self._language = language
        self._dictionary = read_dictionary(language)
        self._urls = urls

    def text(self, text: str, *, keep_unknown: bool = False) -> str:
        def translated(found: re.Match[str]) -> str:
            forms = base_forms(found[0].lower())
            known = next((self._dictionary[form] for form in forms if form in self._dictionary), "")
            return known or (found[0] if keep_unknown or found[0][0].isupper() else "")

        return WORD.sub(translated, text)

    def page(self, url: str, body: bytes) -> bytes:
        parts = TAG.split(UNSEEN.sub("", body.decode("utf-8", "replace")))
        # With one group, every second part is a tag.
        parts[::2] = [html.escape(self.text(html.unescape(part))) for part in parts[::2]]
        parts[1::2] = [self._tag(url, tag) for tag in parts[1::2]]
        return "".join(parts).encode()

    def _tag(self, url: str, tag: str) -> str:
        if tag.lower().startswith("<html"):
            return f'<html lang="{self._language}">'

        def renamed(found: re.Match[str]) -> str:
            target = urljoin(url, html.unescape(found[1])).partition("#")[0]
            return f' href="{self._urls[target]}"'

        return HREF.sub(renamed, ENGLISH_ATTRIBUTE.sub("", tag))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("web", type=Path)
    parser.add_argument("into", type=Path)
    parser.add_argument("language", choices=DICTIONARIES)
    parser.add_argument("--topics", action="store_true")
    given = parser.parse_args()
    web = WarcWeb.open(given.web)
    urls = Urls(web.urls)
    translator = Translator(given.language, urls)
    given.into.mkdir(parents=True)
    with (given.into / "web.warc.gz").open("wb") as file:
        for number, url in enumerate(web.urls):
            stored = web.response(number)
            body = translator.page(url, stored.body) if stored.status == 200 else stored.body
            headers = (("Content-Type", "text/html; charset=utf-8"),)
            file.write(response_record(FetchResult(url=urls[url], status=stored.status, headers=headers, body=body)))
    rows = (line.split("\t") for line in (given.web / "labels.tsv").read_text(encoding="utf-8").splitlines())
    labels = [f"{urls[url]}\t{label}\n" for url, label in rows if urls.is_page(url)]
    (given.into / "labels.tsv").write_text("".join(labels), encoding="utf-8")
    topics = re.sub(r'"(http[^"]*)"', lambda m: f'"{urls[m[1]]}"', (given.web / "topics.toml").read_text("utf-8"))
    if given.topics:
        described = re.compile(r"^((?:description|keywords) = )(.*)$", re.MULTILINE)
        topics = described.sub(lambda m: m[1] + translator.text(m[2], keep_unknown=True), topics)
    (given.into / "topics.toml").write_text(topics, encoding="utf-8")


if __name__ == "__main__":
    main()
