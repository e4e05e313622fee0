"""Newspapers, forums and blogs of a synthetic web: their hosts, addresses, page structure and links (S3). Pure.

Each genre has what real pages of it have: bylines, datelines and statements of spokesmen; posts of members with dates,
quotes and replies; entries with categories, tags, a permalink and comments. Posts and comments contain opinions, each
page mostly good or mostly bad ones (S3-F1).
"""

import random
from html import escape

from opilio.lab.synthetic.prose import ProseGenerator, proper_name

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
