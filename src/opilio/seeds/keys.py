"""Where an engine's key is: in the environment or in a file. The key itself is in no configuration and no message."""

from collections.abc import Mapping
from pathlib import Path

from opilio.model.errors import ConfigError


def key_from(reference: str, option: str, environment: Mapping[str, str]) -> str:
    """The key that `env:NAME` or `file:PATH` refers to; ConfigError says what to do where there is none."""
    check_reference(reference, option)
    kind, _, place = reference.partition(":")
    if kind == "env":
        key = environment.get(place, "").strip()
        if not key:
            raise ConfigError(f"{option}: the environment has no {place}; set it to the key of your account")
    else:
        key = _first_line(Path(place).expanduser(), option)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{option}: what {reference} holds is no key: it must be one word")
    return key


def check_reference(reference: str, option: str) -> None:
    """ConfigError for what is no reference: perhaps it is the key itself, so it is not repeated."""
    kind, _, place = reference.partition(":")
    if kind not in ("env", "file") or not place:
        raise ConfigError(f"{option}: must be env:NAME or file:PATH; a key itself has no place in a configuration")


def _first_line(path: Path, option: str) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{option}: {path} can't be read: {getattr(error, 'strerror', '') or error}") from error
    key = next((line.strip() for line in lines if line.strip()), "")
    if not key:
        raise ConfigError(f"{option}: {path} is empty; put the key on its first line")
    return key
