"""Seed files: one address a line, perhaps with its priority and who named it, separated by tabs; # begins a comment."""

from collections.abc import Iterable
from pathlib import Path

from opilio.model.errors import ConfigError
from opilio.model.records import Seed


def read_seeds(path: Path, option: str) -> list[Seed]:
    """The seeds of a file; ConfigError names file and line of what can't be used. Addresses are not checked here."""
    return list(numbered_seeds(path, option).values())


def numbered_seeds(path: Path, option: str) -> dict[int, Seed]:
    """The same by the number of their line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{option} {path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{option} {path}: is not UTF-8 text; save it as UTF-8") from error
    lines = enumerate(text.removeprefix("\ufeff").splitlines(), 1)
    kept = {n: line for n, line in lines if line.strip() and not line.startswith("#")}
    return {n: _seed(line, f"{option} {path}, line {n}") for n, line in kept.items()}


def _seed(line: str, where: str) -> Seed:
    url, *more = (part.strip() for part in line.strip().split("\t"))
    if not more or not more[0]:
        return Seed(url=url, sources=("given",))
    if more[0] not in ("1", "2", "3"):
        raise ConfigError(f"{where}: priority '{more[0]}' must be 1, 2 or 3, after a tab")
    sources = tuple(name for part in more[1:2] for name in part.split(", ") if name)
    return Seed(url=url, priority=int(more[0]), sources=sources or ("given",))


def written(seeds: Iterable[Seed], heading: str) -> str:
    """The text of a seed file.

    >>> written([Seed(url="https://a.example/", priority=2, sources=("brave", "kagi"))], "wrens")
    '# wrens\\nhttps://a.example/\\t2\\tbrave, kagi\\n'
    """
    title = " ".join(heading.split())
    rows = "".join(f"{seed.url}\t{seed.priority}\t{', '.join(seed.sources)}\n" for seed in seeds)
    return f"# {title}\n{rows}"
