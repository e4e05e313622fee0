"""The replay fetcher: a web behind the engine's own seam, on a virtual clock. No socket, no waiting, no chance.

Latency is drawn from the address and a seed, so the same run takes the same virtual time everywhere. It sees what
a server would answer and nothing of the labels.
"""

from collections.abc import Mapping

from opilio.fetch.answers import location_of, retry_after
from opilio.lab.faults import DOWN, TOO_MANY, Faults, Trouble, chance
from opilio.lab.source import Source
from opilio.lab.warcfile import Answer
from opilio.model.clock import Clock
from opilio.model.records import Failure, Fetched

_MAX_RETRY_AFTER_S = 86_400.0
_MISSING = Answer(404, (("Content-Type", "text/plain"),), b"")
_STRUCK = {
    DOWN: Answer(DOWN, (("Content-Type", "text/plain"),), b""),
    TOO_MANY: Answer(TOO_MANY, (("Content-Type", "text/plain"), ("Retry-After", "1")), b""),
}


class ReplayFetcher:
    """Answers from a web. `latency_s` is the mean; each address has its own between half and one and a half of it."""

    def __init__(
        self,
        source: Source,
        clock: Clock,
        latency_s: float = 0.1,
        seed: int = 0,
        faults: Faults | None = None,
    ) -> None:
        self._source = source
        self._clock = clock
        self._latency_s = latency_s
        self._seed = seed
        self._trouble = Trouble(faults or {})

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> Fetched:
        """One request, answered after its latency has passed on the clock."""
        started_at = self._clock.now()
        host, _, path = url.partition("://")[2].partition("/")
        status, delay_s = self._trouble.strikes(host, f"/{path}", started_at)
        latency_s = self._latency_s * (0.5 + chance(url, self._seed)) + delay_s
        await self._clock.sleep(latency_s)
        answer = _STRUCK[status] if status else self._source.find(url) or _MISSING
        etag = answer.header("etag")
        if validators and etag and etag == validators.get("If-None-Match"):
            answer = Answer(304, answer.headers, b"")
        return _fetched(url, answer, started_at, latency_s)

    async def close(self) -> None:
        """Nothing is held open."""


def _fetched(url: str, answer: Answer, started_at: float, elapsed_s: float) -> Fetched:
    failure = None if answer.status else Failure("headers", "the recorded answer has no status")
    return Fetched(
        url=url,
        status=answer.status,
        location=location_of(answer.status, answer.header("location"), url),
        headers=answer.headers,
        body=answer.body,
        address="127.0.0.1",
        started_at=started_at,
        elapsed_s=elapsed_s,
        retry_after_s=retry_after(answer.header("retry-after"), started_at, _MAX_RETRY_AFTER_S),
        failure=failure,
    )
