"""What requests state about their sender: credentials of the user for certain hosts, and signatures (Web Bot Auth).

Credentials are cookies and headers for hosts where the user has an account. They come from a file of their own and stay
in this process: settings hold the name of the file only, and a stored response has no cookies of such a host.

A signature proves which crawler sends a request: an HTTP message signature (RFC 9421) with an Ed25519 key, in the form
of draft-meunier-web-bot-auth-architecture.
"""

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from opilio.core.errors import ConfigError, MissingExtraError
from opilio.core.files import read_text
from opilio.core.urls import host_of

SIGNATURE_LIFE_S = 60.0
_TAG = "web-bot-auth"
_REMOVED = "(removed)"
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+").fullmatch
# The fetcher itself sets these.
_RESERVED = frozenset({"host", "cookie", "user-agent", "accept-encoding", "content-length", "signature", "connection"})

HeaderText = Annotated[str, msgspec.Meta(pattern=r"^[\x20-\x7e]*$")]


class HostCredentials(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file. `http`: send them without encryption too, for example on a local network."""

    cookies: dict[str, HeaderText] = {}
    headers: dict[str, HeaderText] = {}
    http: bool = False

    def __repr__(self) -> str:
        return "<HostCredentials>"


class Credentials:
    """Cookies and headers by host, as in the URL; a name that starts with a dot covers a domain and its subdomains."""

    def __init__(self, hosts: dict[str, HostCredentials]) -> None:
        self._hosts = hosts

    @classmethod
    def read(cls, path: Path) -> "Credentials":
        """Read a TOML file with a table per host. Errors name the file and never a value."""
        try:
            hosts = msgspec.toml.decode(read_text(path), type=dict[str, HostCredentials])
        except msgspec.DecodeError as error:
            at = str(error).partition(" - at ")[2].strip("`") or "not valid TOML"
            raise ConfigError(
                f"fetch.credentials {path}: {at}: write a table per host with 'cookies' and 'headers'"
            ) from None
        for host, found in hosts.items():
            for name in (*found.cookies, *found.headers):
                if not _HEADER_NAME(name) or name.lower() in _RESERVED:
                    raise ConfigError(f"fetch.credentials {path}: {host}: '{name}' can't be set; remove it")
        return cls({host.lower(): found for host, found in hosts.items()})

    def find(self, url: str) -> HostCredentials | None:
        """The credentials for a URL."""
        host = host_of(url)
        name = host
        found = self._hosts.get(host)
        while found is None and name:
            found = self._hosts.get(f".{name}")
            name = name.partition(".")[2]
        return found if found is not None and (found.http or url.startswith("https:")) else None


class RequestSigner:
    """Signs requests with an Ed25519 key. `agent`: the URL of the site that publishes the public key."""

    def __init__(self, sign: Callable[[bytes], bytes], public_key: bytes, agent: str = "") -> None:
        self._sign = sign
        self.key_id = key_thumbprint(public_key)
        self._agent = f'"{agent}"' if agent else ""

    @classmethod
    def read(cls, path: Path, agent: str) -> "RequestSigner":
        """Read a private key in PEM form."""
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        except ImportError as error:
            raise MissingExtraError(
                "fetch.signature_key: cryptography is not installed; pip install 'opilio[signatures]'"
            ) from error
        try:
            key = load_pem_private_key(read_text(path).encode(), password=None)
        except (ValueError, TypeError) as error:
            raise ConfigError(f"fetch.signature_key {path}: not a PEM private key without a password") from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigError(
                f"fetch.signature_key {path}: not an Ed25519 key; make one with 'openssl genpkey -algorithm ed25519'"
            )
        return cls(key.sign, key.public_key().public_bytes_raw(), agent)

    def headers(self, url: str, now: float) -> list[str]:
        """The header lines that sign a request (RFC 9421, 2.5): its authority, and the agent if there is one."""
        covered = [("@authority", urlsplit(url).netloc.lower().rpartition("@")[2])]
        if self._agent:
            covered.append(("signature-agent", self._agent))
        names = " ".join(f'"{name}"' for name, _ in covered)
        times = f"created={int(now)};expires={int(now + SIGNATURE_LIFE_S)}"
        parameters = f'({names});{times};keyid="{self.key_id}";alg="ed25519";tag="{_TAG}"'
        lines = [*(f'"{name}": {value}' for name, value in covered), f'"@signature-params": {parameters}']
        signature = base64.b64encode(self._sign("\n".join(lines).encode())).decode()
        agent = [f"Signature-Agent: {self._agent}"] if self._agent else []
        return [*agent, f"Signature-Input: sig1={parameters}", f"Signature: sig1=:{signature}:"]


def key_thumbprint(public_key: bytes) -> str:
    """The thumbprint of an Ed25519 public key as a JWK (RFC 7638, RFC 8037)."""
    jwk = f'{{"crv":"Ed25519","kty":"OKP","x":"{_base64url(public_key)}"}}'
    return _base64url(hashlib.sha256(jwk.encode()).digest())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class RequestIdentity:
    """Credentials and signature of the requests of one fetcher."""

    def __init__(self, credentials: Credentials | None = None, signer: RequestSigner | None = None) -> None:
        self._credentials = credentials
        self._signer = signer

    def headers(self, url: str, now: float) -> list[str]:
        """Further header lines of a request."""
        found = self._credentials.find(url) if self._credentials is not None else None
        own = [f"{name}: {value}" for name, value in found.headers.items()] if found is not None else []
        return [*own, *(self._signer.headers(url, now) if self._signer is not None else ())]

    def cookies(self, url: str) -> str:
        """The cookies of a request."""
        found = self._credentials.find(url) if self._credentials is not None else None
        return "; ".join(f"{name}={value}" for name, value in found.cookies.items()) if found is not None else ""

    def stored_headers(self, url: str, headers: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """The headers of a response as they may be stored: without cookies of the user's account."""
        if self._credentials is None or self._credentials.find(url) is None:
            return headers
        return tuple((name, _REMOVED if name.lower() == "set-cookie" else value) for name, value in headers)
