"""Runs that are done, kept until their whole experiment is: one that was interrupted goes on where it stopped.

They lie in the user's cache folder, one file a run, under a name that says all that the run follows from: the program
with every library under it, the content of the web and of the files that judge it, the job, and the files its options
name. So nothing is ever taken over that would come out differently now.
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

_MAX_CACHED_VERSIONS = 3  # of the program, whose runs are kept
_SIDE_FILES = ("labels.tsv", "topics.toml", "hosts.toml")


class RunCheckpoint:
    """The runs of some jobs that are done. One that met an error of ours is not kept: next time it may go well."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files  # for each job

    @classmethod
    def for_jobs(cls, jobs: Sequence[ExperimentJob], cache: Path | None = None) -> "RunCheckpoint":
        """Those that this edition of the program made of the webs and files as they are now."""
        cache = cache or default_cache_folder()
        folder = cache / f"runs-{program_digest()}"
        prune(folder, "runs-*", _MAX_CACHED_VERSIONS)
        webs = {name: _web_digest(Path(name), cache) for name in {job.folder for job in jobs}}
        return cls([folder / _cache_key(job, webs[job.folder]) for job in jobs])

    def load(self) -> dict[int, RunResult]:
        """Which of the jobs are done, by their places."""
        found = ((place, load_cached(path, RunResult)) for place, path in enumerate(self._files))
        return {place: run for place, run in found if run is not None}

    def save(self, place: int, run: RunResult) -> None:
        """Whole or not at all, whenever the command is killed."""
        if not run.error:
            save_cached(self._files[place], run)

    def clear(self) -> None:
        """The results are written: who asks for them again wants them made again."""
        for path in self._files:
            with suppress(OSError):
                path.unlink()


def _cache_key(job: ExperimentJob, web: bytes) -> str:
    digest = xxhash.xxh3_128(web)
    digest.update(msgspec.msgpack.encode(msgspec.structs.replace(job, folder="")))  # where a web lies changes nothing
    for name in _strings([job.variant.set, job.overrides]):
        digest.update(_file_digest(Path(name)))
    return digest.hexdigest()


def _web_digest(folder: Path, cache: Path) -> bytes:
    """Stands for all that a run reads of a web."""
    return WarcWeb.open(folder, cache).digest.encode() + b"".join(_file_digest(folder / name) for name in _SIDE_FILES)


def _strings(value: object) -> Iterator[str]:
    """All in a tree of options: some are names of files."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _strings(part)


def _file_digest(path: Path) -> bytes:
    """A fixed number of bytes that stand for what is in a file, or for there being none."""
    try:
        return xxhash.xxh3_128_digest(path.read_bytes())
    except (OSError, ValueError):
        return bytes(16)


@cache
def program_digest() -> str:
    """Names the program: all of its own files, the libraries that are installed, the interpreter."""
    libraries = sorted({(found.name, found.version) for found in distributions()})
    digest = xxhash.xxh3_64(msgspec.msgpack.encode((sys.version, libraries)))
    digest.update(folder_digest(files("opilio")))
    return digest.hexdigest()


def folder_digest(folder: Traversable) -> bytes:
    """A few bytes that stand for all files in a folder and below, names and contents; what was compiled is left out."""
    digest = xxhash.xxh3_128()
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.name != "__pycache__":
            held = folder_digest(entry) if entry.is_dir() else entry.read_bytes()
            digest.update(msgspec.msgpack.encode((entry.name, xxhash.xxh3_128_digest(held))))
    return digest.digest()
