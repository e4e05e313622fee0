"""Faults of the hosts of a web: delays, errors, throttling. Pure, and the same for server and replay.

An optional `hosts.toml` in a web's folder lists them:

    [[host]]
    name = "www.example.org"
    delay_s = 0.5
    error_rate = 0.2         # share of requests answered with 503
    most_per_s = 2.0         # more than that are answered with 429 and Retry-After
"""

import tomllib
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import xxhash
from msgspec import Meta

from opilio.core.errors import OfflineWebError
from opilio.core.settings_input import describe_validation_error
from opilio.lab.experiments.declarations import MAX_DELAY_S


class HostFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    delay_s: Annotated[float, Meta(ge=0, le=MAX_DELAY_S)] = 0.0
    error_rate: Annotated[float, Meta(ge=0, le=1)] = 0.0
    most_per_s: Annotated[float, Meta(ge=0)] = 0.0  # 0: no limit

    def fails(self, url: str, attempt: int) -> bool:
        """Does this attempt fail? A fixed draw from URL and number, so that a run can be repeated."""
        return self.error_rate > 0 and hash_fraction(f"{attempt} {url}") < self.error_rate


Faults = Mapping[str, HostFaults]
TOO_MANY_REQUESTS = 429
SERVICE_UNAVAILABLE = 503


class InjectedFault(NamedTuple):
    """The fault of one request."""

    status: int = 0  # replaces the response; 0: none
    delay_s: float = 0.0


_NO_FAULT = InjectedFault()


class FaultInjector:
    """The fault of each request, asked for in their order. robots.txt has none: it is free for every crawler."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._attempts: dict[str, int] = {}
        self._recent: dict[str, deque[float]] = {}

    def next_fault(self, host: str, target: str, now: float) -> InjectedFault:
        """The fault of the next request; `target` is its path and query."""
        fault = self._faults.get(host)
        if fault is None or target == "/robots.txt":
            return _NO_FAULT
        if fault.most_per_s and self._exceeds_rate(fault, now):
            return InjectedFault(TOO_MANY_REQUESTS)
        url = host + target
        attempt = self._attempts[url] = self._attempts.get(url, 0) + 1
        return InjectedFault(SERVICE_UNAVAILABLE if fault.fails(url, attempt) else 0, fault.delay_s)

    def _exceeds_rate(self, fault: HostFaults, now: float) -> bool:
        recent = self._recent.setdefault(fault.name, deque())
        while recent and recent[0] <= now - 1:
            recent.popleft()
        if len(recent) >= fault.most_per_s:
            return True
        recent.append(now)
        return False


class _FaultsFile(msgspec.Struct, forbid_unknown_fields=True):
    host: tuple[HostFaults, ...] = ()


def load_faults(folder: Path) -> dict[str, HostFaults]:
    """The faults declared in a web's folder; empty without `hosts.toml`."""
    path = folder / "hosts.toml"
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))
        return {fault.name: fault for fault in msgspec.convert(table, _FaultsFile).host}
    except FileNotFoundError:
        return {}
    except msgspec.ValidationError as error:
        raise OfflineWebError(f"{path}: {describe_validation_error(error)}") from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OfflineWebError(f"{path}: {error}") from error


def merge_faults(hosts: Iterable[str], own: Faults, every: HostFaults | None) -> dict[str, HostFaults]:
    """Faults of all hosts merged with those of single hosts; the worse of the two counts."""
    if every is None or not (every.delay_s or every.error_rate or every.most_per_s):
        return dict(own)
    return {name: _worst_of(name, own.get(name, HostFaults(name=name)), every) for name in hosts}


def _worst_of(name: str, one: HostFaults, other: HostFaults) -> HostFaults:
    limits = [rate for rate in (one.most_per_s, other.most_per_s) if rate]
    return HostFaults(
        name=name,
        delay_s=max(one.delay_s, other.delay_s),
        error_rate=max(one.error_rate, other.error_rate),
        most_per_s=min(limits, default=0.0),
    )


def hash_fraction(name: str, seed: int = 0) -> float:
    """A number in 0..1 that depends only on name and seed."""
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass"), seed) / 2**64
