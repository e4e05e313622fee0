"""Reports code that nothing in `src` and `scripts` uses. Delete what it finds.

Names that are used from outside are known in two ways: the entry points in pyproject.toml, and `ignore_names` of
[tool.vulture] there. Tests do not count as users: code that only its own test calls is dead.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any

from vulture import Vulture

ROOT = Path(__file__).parents[1]


def entry_points(project: dict[str, Any]) -> list[str]:
    """The names that a registry or an installed command looks up: `function` of `package.module:function`."""
    groups = [project["scripts"], *project.get("entry-points", {}).values()]
    return [target.partition(":")[2] for group in groups for target in group.values()]


def main() -> None:
    """Print what is unused; exit with 1 where anything is."""
    tree = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    options = tree["tool"]["vulture"]
    known = [*options["ignore_names"], *entry_points(tree["project"])]
    vulture = Vulture(ignore_names=known, ignore_decorators=options["ignore_decorators"])
    vulture.scavenge([str(ROOT / path) for path in options["paths"]], exclude=options["exclude"])
    found = vulture.get_unused_code(min_confidence=options["min_confidence"])
    for item in found:
        print(f"{Path(item.filename).relative_to(ROOT)}:{item.first_lineno}: {item.message}")
    if found:
        sys.exit("unused code: delete it, or add a name that is used from outside to [tool.vulture] in pyproject.toml")


if __name__ == "__main__":
    main()
