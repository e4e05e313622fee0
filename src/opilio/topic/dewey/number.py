"""D-numbers as strings: how long they are, cut short, compared. Any number of digits; knows no class names."""

import re
from functools import lru_cache

_DEWEY = re.compile(r"\d{3}(\.\d+)?")
_ANY_SCHEME = re.compile(r"\d+(\.\d+)*")


def is_number(text: str, dewey: bool = True) -> bool:
    """Three digits and perhaps decimals; in another scheme (UDC and the like) any digits with points between.

    >>> is_number("746.92"), is_number("74.6"), is_number("621.396.2", dewey=False)
    (True, False, True)
    """
    return (_DEWEY if dewey else _ANY_SCHEME).fullmatch(text) is not None


def is_beginning(text: str) -> bool:
    """One digit or two, which stand for all numbers that begin so.

    >>> is_beginning("5"), is_beginning("59"), is_beginning("5984")
    (True, True, False)
    """
    return len(text) < 3 and text.isdecimal()


def digits_of(number: str) -> str:
    """The digits alone: what prefixes are compared on.

    >>> digits_of("155.95")
    '15595'
    """
    return number.replace(".", "")


@lru_cache(maxsize=4096)  # a lexicon has some thousand numbers, a page asks for them again and again
def shorten(number: str, length: int) -> str:
    """The number cut to at most `length` digits (S2-37: three).

    >>> shorten("155.95", 3), shorten("155.95", 4), shorten("391", 5)
    ('155', '155.9', '391')
    """
    kept, digits = 0, 0
    for character in number:
        if digits == length:
            break
        kept += 1
        digits += character != "."
    return number[:kept].rstrip(".")


def related(code: str, other: str) -> bool:
    """Is one the beginning of the other? `4` is all of language, `598.8` a part of `598` (S2-E6).

    >>> related("598.8", "598"), related("415", "4"), related("415", "416")
    (True, True, False)
    """
    mine, theirs = digits_of(code), digits_of(other)
    return mine.startswith(theirs) or theirs.startswith(mine)
