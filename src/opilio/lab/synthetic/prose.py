"""Prose for synthetic pages: sentences with words of their subject, and articles of newspapers, forums and blogs.

Words are drawn with Zipf weights (a word's probability falls with its rank in the list). The word lists are data of the
package; the random generator is passed in.

Each genre has what real pages of it have: bylines, datelines and statements of spokesmen; posts of members with dates,
quotes and replies; entries with categories, tags, a permalink and comments. Posts and comments contain opinions, each
page mostly good or mostly bad ones (S3-F1).
"""

import random
import re
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from itertools import accumulate

import msgspec


class Subject(msgspec.Struct, frozen=True):
    """A subject of pages. `other_sense` names the subject that shares the `ambiguous` word."""

    name: str
    nouns: tuple[str, ...]
    verbs: tuple[str, ...] = ()
    adjectives: tuple[str, ...] = ()
    ambiguous: str = ""
    other_sense: str = ""
    # A subject with the same content, left out of webs about this one.
    replaces: str = ""
    # Words of senses that are not meant, as a user would give them.
    contexts: tuple[str, ...] = ()


class WordLists(msgspec.Struct, frozen=True):
    """All word lists: general words, the subjects that can be topics, and the other subjects.

    `papers` are topics of the papers' experiments, used only where a shape names them.
    """

    general: Subject
    subjects: tuple[Subject, ...]
    senses: tuple[Subject, ...]
    papers: tuple[Subject, ...] = ()
    paper_senses: tuple[Subject, ...] = ()

    @property
    def topics(self) -> dict[str, Subject]:
        """Every subject that can be a topic, by its name."""
        return {subject.name: subject for subject in (*self.subjects, *self.papers)}


@lru_cache(maxsize=1)
def load_word_lists() -> WordLists:
    """The word lists that come with the package."""
    table = tomllib.loads((files("opilio.lab.synthetic") / "words.toml").read_text("utf-8"))
    general = msgspec.convert({"name": "general", **table["general"]}, Subject)
    kinds = ("subject", "sense", "paper", "paper_sense")
    subjects, senses, papers, paper_senses = (msgspec.convert(table[k], tuple[Subject, ...]) for k in kinds)
    return WordLists(general, subjects, senses, papers, paper_senses)


_TEMPLATES = (
    "The {a} {n} {v} the {n} of the {n}.",
    "In {y}, {p} {v} a {a} {n} near the {n}.",
    "Every {n} {v} the {n}, and the {a} {n} {v} it.",
    "Most {n} and {n} in {p} are {a} and {a}.",
    "A {a} {n} is what {p} calls the {n} of the {n}.",
    "According to {p}, the {n} {v} more than one {n}.",
    "There is no {n} without a {n}, whatever the {a} {n} {v}.",
    "{p} wrote about the {n} in {y} and again about the {a} {n}.",
    "When the {n} {v}, a {n} with {a} {n} is seen.",
    "Some say that the {a} {n} {v} only the {n}.",
    "This {n} is {a}; that one, near {p}, is {a}.",
    "How the {n} {v} a {n} is a {n} for another {n}.",
)
_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou])")
_OPENINGS = ("About the", "The", "A short history of the", "Notes on the", "Looking after the", "Understanding the")
_SYLLABLES = (
    "bar",
    "den",
    "wick",
    "ham",
    "lo",
    "mar",
    "ton",
    "el",
    "vin",
    "ros",
    "ka",
    "ster",
    "ny",
    "hol",
    "bech",
    "or",
)


class ProseGenerator:
    """Writes about one subject. `density` is the share of content words that are the subject's own."""

    def __init__(self, general: Subject, subject: Subject, density: float, rng: random.Random) -> None:
        self._own = {"n": subject.nouns, "v": subject.verbs, "a": subject.adjectives}
        self._common = {"n": general.nouns, "v": general.verbs, "a": general.adjectives}
        self._density = density
        self._rng = rng

    def word(self, kind: str) -> str:
        """One word: n(oun), v(erb), a(djective), p(roper name) or y(ear)."""
        if kind == "p":
            return proper_name(self._rng)
        if kind == "y":
            return str(self._rng.randint(1840, 2024))
        own = self._own[kind]
        return zipf(own if own and self._rng.random() < self._density else self._common[kind], self._rng)

    def sentence(self) -> str:
        pieces = self._rng.choice(_SPLIT_TEMPLATES)
        text = "".join(self.word(piece[1]) if piece.startswith("{") else piece for piece in pieces)
        return fix_articles(text[0].upper() + text[1:])

    def paragraph(self) -> str:
        return " ".join(self.sentence() for _ in range(self._rng.randint(2, 6)))

    def title(self) -> str:
        """A heading that names the subject more often than not."""
        own = zipf(self._own["n"], self._rng)
        return f"{self._rng.choice(_OPENINGS)} {self.word('a')} {own} of {proper_name(self._rng)}"

    def phrase(self) -> str:
        """A few words, as in an anchor."""
        return f"{self.word('a')} {self.word('n')} {self.word('n')}"


def fix_articles(text: str) -> str:
    """
    >>> fix_articles("A owl with a egg near a nest")
    'An owl with an egg near a nest'
    """
    return _BEFORE_VOWEL.sub(r"\1n ", text)


def proper_name(rng: random.Random) -> str:
    """An invented name: text has a long tail of words that are nowhere else."""
    return "".join(rng.choices(_SYLLABLES, k=rng.choice((2, 2, 3)))).capitalize()


def zipf(words: Sequence[str], rng: random.Random) -> str:
    """One word, the first ones most often."""
    return rng.choices(words, cum_weights=_weights(len(words)))[0]


@lru_cache(maxsize=64)
def _weights(size: int) -> tuple[float, ...]:
    return tuple(accumulate(1 / (place + 3) for place in range(size)))


def _split(template: str) -> tuple[str, ...]:
    parts = template.replace("{", "\0{").replace("}", "}\0").split("\0")
    return tuple(p for p in parts if p)


_SPLIT_TEMPLATES = tuple(map(_split, _TEMPLATES))


GENRES = ("news", "discussions", "blogs")
_HOST_PREFIXES = {"news": "news", "discussions": "forum", "blogs": "blog"}
_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October")
_PRAISE = (
    "I love the {}: it is excellent.",
    "What a wonderful {}, great work!",
    "The {} is good and I am happy with it.",
)
_BLAME = (
    "I hate the {}: it is awful.",
    "What a terrible {}, a bad mistake.",
    "The {} is a horrible failure, very sad.",
)


def host_genre(number: int, share: float) -> str:
    """The genre of a host, "" for an ordinary one; the genres take turns.

    >>> [host_genre(number, 0.5) for number in range(7)]
    ['', 'news', '', 'discussions', '', 'blogs', '']
    """
    before, after = int(number * share), int((number + 1) * share)
    return GENRES[before % len(GENRES)] if after > before else ""


def genre_host_name(name: str, genre: str) -> str:
    """
    >>> genre_host_name("www.wren-1.example", "discussions")
    'forum.wren-1.example'
    """
    return name.replace("www", _HOST_PREFIXES[genre], 1) if genre else name


def genre_path(genre: str, word: str, number: int) -> str:
    """The address of an article of a genre on its host."""
    if genre == "discussions":
        return f"/forum/thread-{number}-{word}.html"
    year, month = 2015 + number % 10, 1 + number % 12
    return f"/news/{year}/{month:02}/{word}-{number}.html" if genre == "news" else f"/blog/{year}/{word}-{number}.html"


def dress_article(blocks: list[str], genre: str, author: ProseGenerator, rng: random.Random) -> list[str]:
    """The blocks of an article in the form of its genre."""
    return {"news": _news, "discussions": _thread, "blogs": _blog_entry}[genre](blocks, author, rng)


def _news(blocks: list[str], author: ProseGenerator, rng: random.Random) -> list[str]:
    place, reporter = proper_name(rng), proper_name(rng)
    head = f"<p class='byline'>By {reporter}, correspondent. Published {_date(rng)}. {place} (agency report)</p>"
    statement = escape(author.sentence())
    quoted = f"<p>A spokesman for {proper_name(rng)} announced in an interview with this newspaper: “{statement}”</p>"
    foot = "<p>More coverage: breaking headlines, press bulletins and updates from our editor and reporters.</p>"
    return [head, *blocks[:2], quoted, *blocks[2:], foot]


def _thread(blocks: list[str], author: ProseGenerator, rng: random.Random) -> list[str]:
    """Every block is a post; some quote the post before and have an opinion."""
    mood = rng.random()
    posts = []
    for number, block in enumerate(blocks, 1):
        member, joined = proper_name(rng), rng.randint(2003, 2022)
        head = (
            f"Post #{number} · posted {_date(rng)} by {member}, member, joined {joined}, {rng.randint(3, 900)} messages"
        )
        quote = f"<blockquote>{proper_name(rng)} wrote: {escape(author.sentence())}</blockquote>"
        opinion = f"<p>{_opinion(author, mood, rng)}</p>" if rng.random() < 0.6 else ""
        posts.append(f"<div class='post'><p>{head}</p>{quote if number > 1 else ''}{block}{opinion}</div>")
    return [*posts, "<p>Reply to this thread · quote · ask a question · board rules by the moderator</p>"]


def _blog_entry(blocks: list[str], author: ProseGenerator, rng: random.Random) -> list[str]:
    mood = rng.random()
    tags = escape(f"{author.word('n')}, {author.word('n')}")
    head = (
        f"<p>Posted on {_date(rng)} by the author in category {escape(author.word('n'))} · tags: {tags} · permalink</p>"
    )
    opinion = f"<p>{_opinion(author, mood, rng)}</p>"
    count = rng.randint(1, 5)
    comments = "".join(f"<li>{proper_name(rng)} comments: {_opinion(author, mood, rng)}</li>" for _ in range(count))
    foot = "<p>Subscribe to this blog, follow or share it · older entries in the archive · trackback · blogroll</p>"
    return [head, *blocks[:2], opinion, *blocks[2:], f"<h2>{count} comments</h2><ul>{comments}</ul>", foot]


def _opinion(author: ProseGenerator, mood: float, rng: random.Random) -> str:
    return escape(rng.choice(_PRAISE if rng.random() < mood else _BLAME).format(author.word("n")))


def _date(rng: random.Random) -> str:
    return f"{rng.randint(1, 28)} {rng.choice(_MONTHS)} {rng.randint(2015, 2024)}"
