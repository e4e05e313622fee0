"""An environment of its own for each peer, made when an experiment first asks for it and kept in the cache folder."""

import subprocess
import sys
import venv
from pathlib import Path

from opilio.crawl.config import nearest
from opilio.lab.cachefolder import default_cache
from opilio.model.errors import ConfigError, WebError

PEERS = {"scrapy": "scrapy>=2.13", "crawl4ai": "crawl4ai>=0.9"}  # what pip is asked for
DONE = "ready"
PIP_TIMEOUT_S = 900


def check_peer(name: str) -> None:
    if name not in PEERS:
        raise ConfigError(f"peer:{name}: is unknown{nearest(name, list(PEERS))}; known: {', '.join(PEERS)}")


def python_of(name: str, cache: Path | None = None) -> Path:
    """The interpreter of a peer's environment; installs the peer by name when it is not there."""
    check_peer(name)
    folder = (cache or default_cache()) / "peers" / f"{name}-py{sys.version_info.major}{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / DONE).exists():
        venv.create(folder, with_pip=True, clear=True)
        _install(python, PEERS[name])
        (folder / DONE).touch()
    return python


def _install(python: Path, requirement: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_TIMEOUT_S, check=False)  # noqa: S603 - our own command
    except subprocess.TimeoutExpired as error:
        raise WebError(f"pip install {requirement}: took more than {PIP_TIMEOUT_S} s") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise WebError(f"pip install {requirement}: {lines[-1] if lines else done.stderr[-200:]}")
