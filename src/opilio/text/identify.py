"""Which language a text is in. The model takes half a second to load, so it is loaded with the first question."""

from opilio.model.records import BLOCK_BREAK, LINK_CLOSES, LINK_OPENS

_SHORTEST = 20  # letters; below that the answer is a guess
_BLANK = str.maketrans(dict.fromkeys((LINK_OPENS, LINK_CLOSES, BLOCK_BREAK), " "))


def identify(text: str, sample: int = 1_000) -> str:
    """The two-letter code of the language of a text; empty when it can't be told.

    Looks at `sample` characters a third into the text, past most menus: about 0.2 ms. Marks of a page's flow may
    be in it.
    """
    start = max(0, (len(text) - sample) // 3)
    shown = text[start : start + sample].translate(_BLANK)
    if sum(map(str.isalpha, shown)) < _SHORTEST:
        return ""
    import py3langid

    code: str = py3langid.classify(shown)[0]
    return code


def log_odds(text: str) -> dict[str, float]:
    """How likely a text is in each language that the model knows, as logarithms that are only comparable."""
    import py3langid

    return {str(code): float(value) for code, value in py3langid.rank(text)}
