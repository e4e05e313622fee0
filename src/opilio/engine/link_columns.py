"""Ranked links as columns, and back. One encoded blob serves the wire, the store and the frontier."""

from collections.abc import Sequence

import msgspec
import numpy as np
from isal import isal_zlib
from isal.igzip_lib import IsalError

from opilio.core.records import Lead, LinkColumns

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(LinkColumns).decode


def pack(columns: LinkColumns) -> bytes:
    """The columns of a page's links, encoded and compressed."""
    if not columns.urls:
        return b""
    packed: bytes = isal_zlib.compress(_encode(columns), 1)
    return packed


def unpack(blob: bytes) -> LinkColumns:
    """The columns of an encoded blob; a damaged one raises ValueError.

    >>> unpack(b"").urls
    []
    """
    if not blob:
        return LinkColumns(urls=[], hosts=[], anchors=[], keys=b"", scores=b"", names=[], parts=b"", dropped={})
    try:
        return _decode(isal_zlib.decompress(blob))
    except IsalError as error:  # type: ignore[misc]  # the stub takes the class for an instance
        raise ValueError(f"the links of a page are damaged: {error}") from error


def build_leads(columns: LinkColumns, page: Lead, relevant: bool, scores: Sequence[float] | None = None) -> list[Lead]:
    """The links worth following as leads, each URL once with its best score."""
    tunnel = 0 if relevant else page.tunnel + 1
    values = np.frombuffer(columns.scores, dtype=np.float32).tolist() if scores is None else scores
    keys = np.frombuffer(columns.keys, dtype=np.int64).tolist()
    best: dict[int, Lead] = {}
    dropped, features = columns.dropped, columns.features
    for index, (url, host, key, score) in enumerate(zip(columns.urls, columns.hosts, keys, values, strict=True)):
        if index in dropped or key == page.key:
            continue
        known = best.get(key)
        if known is None or score > known.score:
            best[key] = Lead(
                url=url,
                key=key,
                host=host,
                score=score,
                depth=page.depth + 1,
                tunnel=tunnel,
                parent=page.key,
                features=features[index] if features else b"",
            )
    return list(best.values())
