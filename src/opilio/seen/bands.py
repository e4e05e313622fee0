"""Near duplicates without comparing with everything: two signatures that differ in at most three bits agree in one
of four bands of 16 bits (pigeon-hole; Manku, Jain and Das Sarma 2007). With a wider distance some pairs are missed.
Must not: store anything.
"""

from collections.abc import Iterable

from opilio.seen.fingerprint import hamming

BANDS = 4
_BAND_BITS = 16


def bands_of(simhash: int) -> tuple[int, ...]:
    """The four bands, each with its number above it, so that one index serves them all.

    >>> bands_of(0x0001_0002_0003_0004)
    (4, 65539, 131074, 196609)
    """
    return tuple((band << _BAND_BITS) | (simhash >> (band * _BAND_BITS) & 0xFFFF) for band in range(BANDS))


def nearest(simhash: int, candidates: Iterable[tuple[int, int]], max_distance: int) -> int | None:
    """The key of the nearest of (key, simhash) within the distance; of equally near ones the smallest key."""
    near = [(hamming(simhash, other), key) for key, other in candidates]
    distance, key = min(near, default=(max_distance + 1, 0))
    return key if distance <= max_distance else None
