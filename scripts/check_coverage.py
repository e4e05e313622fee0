"""Compares the branch coverage of the last run with the floor of each package in pyproject.toml.

    python -m pytest --cov --cov-report= … && python scripts/check_coverage.py

A package without a floor is shown but not checked.
"""

import sys
import tomllib
from collections import defaultdict
from pathlib import Path

from coverage import Coverage
from coverage.results import Numbers

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "opilio"


def floors() -> dict[str, float]:
    """The least share of lines and branches, in per cent, that the tests of each package must run."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return {str(name): float(value) for name, value in project["tool"]["opilio"]["coverage-floors"].items()}


def measured() -> dict[str, Numbers]:
    """Lines and branches of each package that the last run reached."""
    coverage = Coverage(data_file=str(ROOT / ".coverage"), config_file=str(ROOT / "pyproject.toml"))
    coverage.load()
    found: defaultdict[str, Numbers] = defaultdict(Numbers)
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE).parts
        # A module that no test imported counts too, with none of its lines reached.
        found["opilio" if inside[0].startswith("__") else inside[0].removesuffix(".py")] += coverage._analyze(
            str(path)
        ).numbers
    return dict(found)


def main() -> None:
    """Print a line per package; exit with 1 where one is below its floor."""
    least, reached = floors(), measured()
    below = [name for name, floor in least.items() if name not in reached or reached[name].pc_covered < floor]
    for name, numbers in sorted(reached.items()):
        floor = f"{least[name]:5.1f}" if name in least else "    –"
        print(f"{name:<10}{numbers.pc_covered:6.1f} %   floor {floor}{'   BELOW' if name in below else ''}")
    if below:
        sys.exit(f"coverage is below the floor in pyproject.toml: {', '.join(below)}; add tests for these packages")


if __name__ == "__main__":
    main()
