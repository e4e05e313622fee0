"""What a fetcher will put up with, and how it reaches the network. Options only: no behaviour."""

from collections.abc import Mapping

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing fetched is trusted: every answer has an end in bytes and in seconds."""

    body_bytes: int = 8 << 20  # after decoding; a longer answer is a failure and nothing of it is kept
    header_bytes: int = 64 << 10
    header_count: int = 256
    total_s: float = 60.0
    connect_s: float = 10.0
    slow_bytes_per_s: int = 200  # an answer slower than this for `slow_s` is given up
    slow_s: int = 20
    retry_after_s: float = 86_400.0  # a longer Retry-After is cut to this


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach hosts.

    `resolve` maps a host (as in the URL, with or without its port, or `*` for all) to an address with an optional
    port. It only says where to connect: the address guard still holds for what it names.

    A `proxy` (http, https, socks4a, socks5h, ...) is trusted because the user named it: the address guard then does not
    apply, as only the proxy sees where names lead. Proxy variables of the environment are never read.
    """

    proxy: str = ""
    resolve: Mapping[str, str] = {}
    verify_tls: bool = True
    ca_file: str = ""  # certificates to trust; empty: the system's
    allow_private: bool = False
    connections: int = 64  # open at once, and requests under way at once
