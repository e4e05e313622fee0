"""How often one client may ask for something costly: a bucket of tokens that fills with time. Reads no clock."""

from opilio.model.errors import OpilioError

MOST_CLIENTS = 10_000


class TooManyError(OpilioError):
    """A client asks more often than it may. `wait_s` tells when it may again."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many requests: please wait {wait_s:.0f} seconds")
        self.wait_s = wait_s

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(int(self.wait_s) + 1)}


class Buckets:
    """`rate_s` requests a second on average, `burst` at once, for each client."""

    def __init__(self, rate_s: float, burst: int) -> None:
        self._rate_s = rate_s
        self._burst = float(burst)
        self._left: dict[str, tuple[float, float]] = {}  # client to (tokens, when that was)

    def take(self, client: str, now: float) -> None:
        """Take a token; TooManyError where there is none."""
        wait_s = self.wait_s(client, now)
        if wait_s > 0.0:
            raise TooManyError(wait_s)

    def give_back(self, client: str) -> None:
        """What was taken last was not needed."""
        tokens, since = self._left[client]
        self._left[client] = (tokens + 1.0, since)

    def wait_s(self, client: str, now: float) -> float:
        """Take a token: 0.0; or how long to wait for one.

        >>> buckets = Buckets(2.0, 1)
        >>> [buckets.wait_s("a", 10.0), buckets.wait_s("a", 10.0), buckets.wait_s("b", 10.0), buckets.wait_s("a", 11.0)]
        [0.0, 0.5, 0.0, 0.0]
        """
        tokens, since = self._left.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + max(0.0, now - since) * self._rate_s)
        if len(self._left) >= MOST_CLIENTS:
            self._left.pop(next(iter(self._left)))
        if tokens < 1.0:
            self._left[client] = (tokens, now)
            return (1.0 - tokens) / self._rate_s
        self._left[client] = (tokens - 1.0, now)
        return 0.0
