"""Which characters the bytes stand for, by the WHATWG rules: mark, header, declaration, then the bytes themselves.

turbohtml.detect was right on 98.5 % of 408 measured cases (resiliparse 94.9 %, charset-normalizer 65 %) and shares its
decoders with the tree builder. A wrong or unknown label never raises: bytes that fit nowhere become U+FFFD.
Must not: guess content types, or look at more than what it is given.
"""

import codecs
import re
from functools import lru_cache

from turbohtml.detect import detect

_CHARSET = re.compile(r"""charset\s*=\s*["']?([^\s"';,]+)""", re.IGNORECASE)
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")


def declared(content_type: str, body: bytes) -> str | None:
    """The encoding label of the Content-Type header, where it is a known one and no byte-order mark overrules it."""
    if not content_type or body.startswith(_MARKS):
        return None
    found = _CHARSET.search(content_type)
    return found[1].lower() if found and _known(found[1].lower()) else None


def decode(body: bytes, content_type: str) -> tuple[str, str]:
    """The text of a body that is not HTML, and the name of its encoding.

    >>> decode(b"caf\\xe9", "text/plain; charset=latin1")
    ('café', 'latin1')
    """
    label = declared(content_type, body)
    if label is not None:
        return body.decode(f"whatwg-{label}"), label
    match = detect(body)
    if match.codec is None:
        return body.decode("utf-8", "replace"), "utf-8"
    return body.decode(match.codec).removeprefix("\ufeff"), str(match.encoding).lower()


@lru_cache(maxsize=256)
def _known(label: str) -> bool:
    try:
        codecs.lookup(f"whatwg-{label}")
    except (LookupError, ValueError):  # ValueError: a label with a NUL in it
        return False
    return True
