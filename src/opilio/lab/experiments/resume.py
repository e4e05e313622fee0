"""Stores finished runs until their whole experiment is finished, so that an interrupted experiment can resume.

They are in the user's cache folder, one file per run. Its name is a digest of everything the run depends on: the
program with all libraries, the content of the web and of its labels, the job, and the files that its options name. So a
stored run is used only if a new one would give the same result.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec
import xxhash

from opilio.lab.experiments.results import RunResult
from opilio.lab.experiments.runs import ExperimentJob
from opilio.lab.webs.cache import default_cache_folder, load_cached, prune, save_cached
from opilio.lab.webs.web import WarcWeb

_MAX_CACHED_VERSIONS = 3  # versions of the program whose runs are kept
_SIDE_FILES = ("labels.tsv", "topics.toml", "hosts.toml")


class RunCheckpoint:
    """The finished runs of some jobs. A run with an error is not stored: the next try may succeed."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files  # one per job

    @classmethod
    def for_jobs(cls, jobs: Sequence[ExperimentJob], cache: Path | None = None) -> "RunCheckpoint":
        """The runs that this version of the program made from the current webs and files."""
        cache = cache or default_cache_folder()
        folder = cache / f"runs-{program_digest()}"
        prune(folder, "runs-*", _MAX_CACHED_VERSIONS)
        webs = {name: _web_digest(Path(name), cache) for name in {job.folder for job in jobs}}
        return cls([folder / _cache_key(job, webs[job.folder]) for job in jobs])

    def load(self) -> dict[int, RunResult]:
        """The finished runs by job index."""
        found = ((place, load_cached(path, RunResult)) for place, path in enumerate(self._files))
        return {place: run for place, run in found if run is not None}

    def save(self, place: int, run: RunResult) -> None:
        """Store a run atomically: the command may be killed at any time."""
        if not run.error:
            save_cached(self._files[place], run)

    def clear(self) -> None:
        """Delete the runs after the results are written: a new start of the experiment runs everything again."""
        for path in self._files:
            with suppress(OSError):
                path.unlink()


def _cache_key(job: ExperimentJob, web: bytes) -> str:
    digest = xxhash.xxh3_128(web)
    # The location of a web does not matter.
    digest.update(msgspec.msgpack.encode(msgspec.structs.replace(job, folder="")))
    for name in _strings([job.variant.set, job.overrides]):
        digest.update(_file_digest(Path(name)))
    return digest.hexdigest()


def _web_digest(folder: Path, cache: Path) -> bytes:
    """A digest of all that a run reads of a web."""
    return WarcWeb.open(folder, cache).digest.encode() + b"".join(_file_digest(folder / name) for name in _SIDE_FILES)


def _strings(value: object) -> Iterator[str]:
    """All strings in a tree of options: some are names of files."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)


def _file_digest(path: Path) -> bytes:
    """A digest of a file's content, or of its absence."""
    try:
        return xxhash.xxh3_128_digest(path.read_bytes())
    except (OSError, ValueError):
        return bytes(16)


@cache
def program_digest() -> str:
    """A digest of the program: its own files, the installed libraries, the interpreter."""
    libraries = sorted({(found.name, found.version) for found in distributions()})
    digest = xxhash.xxh3_64(msgspec.msgpack.encode((sys.version, libraries)))
    digest.update(folder_digest(files("opilio")))
    return digest.hexdigest()


def folder_digest(folder: Traversable) -> bytes:
    """A digest of the names and contents of all files in a folder and below, except compiled ones."""
    digest = xxhash.xxh3_128()
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name != "__pycache__":
            held = folder_digest(entry) if entry.is_dir() else entry.read_bytes()
            digest.update(msgspec.msgpack.encode((entry.name, xxhash.xxh3_128_digest(held))))
    return digest.digest()
