"""`opilio maintain doctor`: does this machine have what a crawl needs, and what can Opilio do here?"""

import importlib.util
import platform
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from opilio import __version__
from opilio.cli.options import JsonOption
from opilio.cli.output import print_json, print_text

EXTRAS = {"lab": "matplotlib", "parquet": "pyarrow", "lemmas": "simplemma", "learn": "sklearn"}
MIN_FREE_DISK_BYTES = 1 << 30


def doctor(json: JsonOption = False) -> int:
    """Check this machine and list what Opilio can do.

    The exit code is 1 if something that a crawl needs is missing.
    """
    facts = _facts()
    if json:
        print_json(facts)
    else:
        for name, value in facts.items():
            text = ", ".join(value) if isinstance(value, list) else str(value)
            print_text(f"{name.replace('_', ' '):14}  {text or 'none'}")
    return 1 if facts["problems"] else 0


def _facts() -> dict[str, Any]:
    import pycurl

    from opilio.core.registry import SECTION_GROUPS, SEED_ENGINES, plugin_names
    from opilio.core.strategies import strategy_names
    from opilio.engine.workers import available_cpus

    free = shutil.disk_usage(Path.cwd()).free
    problems = []
    if free < MIN_FREE_DISK_BYTES:
        problems.append(f"only {free >> 20} MiB free in {Path.cwd()}")
    if "https" not in pycurl.version_info()[8]:
        problems.append("libcurl was built without TLS: https pages can't be fetched")
    return {
        "opilio": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "libcurl": pycurl.version_info()[1],
        "cores": available_cpus(),
        "free_disk": f"{free / (1 << 30):.1f} GiB",
        "strategies": strategy_names(),
        **{f"{section}_kinds": plugin_names(group) for section, group in SECTION_GROUPS.items()},
        "seed_engine_kinds": plugin_names(SEED_ENGINES),
        "seed_engines": _engines(problems),
        "extras": [name for name, module in EXTRAS.items() if importlib.util.find_spec(module)],
        "problems": problems,
    }


def _engines(problems: list[str]) -> list[str]:
    """The search engines in the user's configuration, for all crawls."""
    from opilio.core.errors import ConfigError
    from opilio.engine.wiring.seeding import load_user_engines

    try:
        return list(load_user_engines())
    except ConfigError as error:
        problems.append(str(error))
        return []
