"""`opilio doctor`: is everything here that a crawl needs, and what can it do?"""

import importlib.util
import platform
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pycurl

from opilio import __version__
from opilio.cli.options import AsJson, print_json, print_text
from opilio.crawl.config import strategies
from opilio.crawl.enginekinds import ENGINES
from opilio.crawl.kinds import SECTIONS
from opilio.crawl.seeding import own_engines
from opilio.crawl.workers import cores
from opilio.model.errors import ConfigError

EXTRAS = {"lab": "matplotlib", "parquet": "pyarrow", "lemmas": "simplemma", "learn": "sklearn"}
LITTLE_DISK = 1 << 30


def doctor(json: AsJson = False) -> int:
    """Check this machine and list what Opilio can do; exit 1 when something needed is missing."""
    facts = _facts()
    if json:
        print_json(facts)
    else:
        for name, value in facts.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print_text(f"{name.replace('_', ' '):14}  {text or 'none'}")
    return 1 if facts["problems"] else 0


def _facts() -> dict[str, Any]:
    free = shutil.disk_usage(Path.cwd()).free
    problems = []
    if free < LITTLE_DISK:
        problems.append(f"only {free >> 20} MiB free in {Path.cwd()}")
    if "https" not in pycurl.version_info()[8]:
        problems.append("libcurl was built without TLS: https pages can't be fetched")
    return {
        "opilio": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "libcurl": pycurl.version_info()[1],
        "cores": cores(),
        "free_disk": f"{free / (1 << 30):.1f} GiB",
        "strategies": strategies(),
        **{f"{section}_kinds": sorted(kinds) for section, kinds in SECTIONS.items()},
        "seed_engine_kinds": sorted(ENGINES),
        "seed_engines": _engines(problems),
        "extras": [name for name, module in EXTRAS.items() if importlib.util.find_spec(module)],
        "problems": problems,
    }


def _engines(problems: list[str]) -> list[str]:
    """The search engines that the person has configured for all crawls."""
    try:
        return list(own_engines())
    except ConfigError as error:
        problems.append(str(error))
        return []
