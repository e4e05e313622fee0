"""How an engine that knows no genres is asked for one: by words (S3-02). Pure."""

from opilio.text.tokens import written_words

ASKED_AS = {"news": "news", "discussions": "forum discussion", "blogs": "blog", "web": ""}


def worded(query: str, genre: str) -> str:
    """The query with the words that stand for a genre.

    >>> worded("audi quattro", "discussions"), worded("audi quattro", "")
    ('audi quattro forum discussion', 'audi quattro')
    """
    return f"{query} {ASKED_AS.get(genre, genre)}".strip()


def shortened(query: str, words: int, characters: int) -> str:
    """A query cut to what an engine takes, between words."""
    kept = " ".join(query.split()[:words])
    return kept if len(kept) <= characters else kept[:characters].rpartition(" ")[0] or kept[:characters]


def spoken(query: str) -> str:
    """A query in plain words, for a search that gives signs a meaning of their own.

    >>> spoken('title:wren -"song thrush"')
    'title wren song thrush'
    """
    return " ".join(written_words(query))
