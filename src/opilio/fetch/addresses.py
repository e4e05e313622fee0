"""Which addresses a crawl may connect to: the guard against private networks and credentials of the machine.

Direct connections are checked by their resolved address, because a check of host names could be bypassed by a second
DNS answer (rebinding). A proxy resolves names itself, so only addresses and local names in the URL can be checked
there.
"""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from opilio.core.urls import canonicalize_url

# All public unicast addresses of IPv6 (RFC 4291, 2.4).
_GLOBAL_UNICAST = IPv6Network("2000::/3")
# RFC 6052; the local-use 64:ff9b:1::/48 of RFC 8215 stays private.
_NAT64 = IPv6Network("64:ff9b::/96")

# Amazon (IPv6), Google (IPv6), Alibaba, Azure, Oracle; most others are link-local.
_METADATA_ADDRESSES = frozenset(("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"))
_METADATA_NAMES = frozenset(("metadata", "metadata.google.internal", "metadata.goog", "instance-data.ec2.internal"))
# Domains that public DNS does not have: RFC 6761, RFC 6762, RFC 8375, ICANN's resolution 2024.07.29.06.
_PRIVATE_DOMAINS = (".localhost", ".localdomain", ".local", ".internal", ".home.arpa")


@lru_cache(maxsize=4096)
def is_public(address: str) -> bool:
    """True if the address is public, also for IPv4 addresses embedded in IPv6.

    >>> is_public("93.184.215.14"), is_public("100.64.0.1"), is_public("::ffff:127.0.0.1")
    (True, False, False)
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address):
        hidden = _embedded_ipv4(ip)
        return _is_public_v6(ip) if hidden is None else _is_public_v4(hidden)
    return _is_public_v4(ip)


def is_metadata_address(address: str) -> bool:
    """True for link-local addresses and others at which clouds serve credentials of the machine.

    >>> is_metadata_address("169.254.169.254"), is_metadata_address("10.0.0.1")
    (True, False)
    """
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if isinstance(ip, IPv6Address):
        ip = _embedded_ipv4(ip) or ip
    return ip.is_link_local or str(ip) in _METADATA_ADDRESSES


def is_private_host(host: str) -> bool:
    """True for a private IP address and for a name that only a private network has, such as one without a dot.

    >>> [is_private_host(host) for host in ("127.0.0.1", "::1", "localhost", "nas.local", "birds.example")]
    [True, True, True, True, False]
    """
    if _is_ip_address(host):
        return not is_public(host)
    host = host.rstrip(".")
    return bool(host) and ("." not in host or host.endswith(_PRIVATE_DOMAINS) or host in _METADATA_NAMES)


def refused_proxy_host(url: str, *, allow_private: bool = False) -> str:
    """The host of a URL that no proxy may be asked for, or an empty string; ValueError for an invalid URL.

    >>> [refused_proxy_host(url) for url in ("http://0x7f.1:6379/", "http://[::ffff:a00:1]/", "http://birds.example/")]
    ['127.0.0.1', '::ffff:a00:1', '']
    """
    # In a canonical URL, every spelling of an IPv4 address is four decimal numbers.
    canonical = canonicalize_url(url)
    if canonical is None:
        raise ValueError("not a valid http(s) URL")
    host = (urlsplit(canonical).hostname or "").rstrip(".")
    if allow_private:
        is_metadata = is_metadata_address(host) if _is_ip_address(host) else host in _METADATA_NAMES
        return host if is_metadata else ""
    return host if is_private_host(host) else ""


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_public_v4(ip: IPv4Address) -> bool:
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def _is_public_v6(ip: IPv6Address) -> bool:
    return ip in _GLOBAL_UNICAST and ip.is_global


def _embedded_ipv4(ip: IPv6Address) -> IPv4Address | None:
    """The IPv4 address embedded in a mapped (::ffff:0:0/96), 6to4 (2002::/16) or NAT64 address."""
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour
