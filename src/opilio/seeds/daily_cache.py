"""What seed engines answered today, how many requests they received, and until when they asked for a pause.

The daily cache is in the user's cache folder. Losing it costs requests, never results. It contains no API keys.
Several processes may use it at once: a request appends one byte to a file, whose size is the count; other files are
written atomically.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import msgspec

from opilio.core.clock import Clock
from opilio.core.files import write_atomically
from opilio.core.protocols import SeedSource
from opilio.core.records import EngineAnswer

_answers_decoder = msgspec.msgpack.Decoder(tuple[EngineAnswer, ...])
# Files that are kept beyond the day: an engine may ask for a month.
BLOCKED_PREFIX = "until-"


class DailyCache:
    """A folder with a subfolder per day; old days are removed."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock

    def now(self) -> float:
        """The current time of the cache's clock."""
        return self._clock.now()

    def today_folder(self) -> Path:
        """The folder of the day (UTC)."""
        return self._folder / datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%d")

    def lasting_file(self, name: str) -> Path:
        """A file that is kept beyond the day."""
        return self._folder / f"{BLOCKED_PREFIX}{_file_name(name)}"

    def open_today(self) -> Path | None:
        """The folder of the day, created if it is missing; None if it can't be written."""
        today = self.today_folder()
        try:
            if not today.is_dir():
                today.mkdir(parents=True, exist_ok=True)
                for old in self._folder.iterdir():
                    if old.is_dir() and old.name < today.name:
                        shutil.rmtree(old, ignore_errors=True)
        except OSError:
            return None
        return today

    def get(self, request: bytes) -> tuple[EngineAnswer, ...] | None:
        """Today's answers to a request, or None."""
        try:
            return _answers_decoder.decode((self.today_folder() / _digest(request)).read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def put(self, request: bytes, answers: Sequence[EngineAnswer]) -> None:
        """Store answers; a folder that can't be written only means that nothing is cached."""
        today = self.open_today()
        if today is not None:
            _write(today / _digest(request), msgspec.msgpack.encode(tuple(answers)))


class DailyQuota:
    """The number of today's requests to an engine by all processes, and until when it is blocked."""

    def __init__(self, cache: DailyCache, engine: str) -> None:
        self._cache = cache
        self._engine = engine

    def used_today(self) -> int:
        try:
            return self._path(self._cache.today_folder()).stat().st_size
        except OSError:
            return 0

    def count_request(self) -> None:
        today = self._cache.open_today()
        with suppress(OSError):
            if today is not None:
                with self._path(today).open("ab") as file:
                    file.write(b".")

    def blocked_until(self) -> float:
        try:
            return float(self._cache.lasting_file(self._engine).read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0.0

    def block_until(self, until: float) -> None:
        if self._cache.open_today() is not None:
            _write(self._cache.lasting_file(self._engine), f"{until:.0f}".encode())

    def _path(self, day: Path) -> Path:
        return day / f"asked-{_file_name(self._engine)}"


class CachedSource:
    """Caches the answers of a source for a day. `options` are those of the engine, without keys."""

    def __init__(self, source: SeedSource, cache: DailyCache, options: bytes) -> None:
        self._source = source
        self._cache = cache
        self._options = options

    @property
    def name(self) -> str:
        """The engine's name."""
        return self._source.name

    async def find(self, query: str, limit: int, genre: str = "") -> Sequence[EngineAnswer]:
        """Today's answer, or a new one; answers with a failure are not cached."""
        request = msgspec.msgpack.encode((self.name, self._options, query, limit, genre))
        known = self._cache.get(request)
        if known is not None:
            return known
        answers = await self._source.find(query, limit, genre)
        if all(answer.failure is None for answer in answers):
            self._cache.put(request, answers)
        return answers


def _digest(request: bytes) -> str:
    return sha256(request).hexdigest()[:32]


def _file_name(name: str) -> str:
    """A safe file name for a name that the user chose."""
    return sha256(name.encode()).hexdigest()[:16]


def _write(path: Path, data: bytes) -> None:
    # A cache folder without space or permission only means that nothing is cached.
    with suppress(OSError):
        write_atomically(path, data)
