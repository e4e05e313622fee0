"""Prints measures of the structure of src/opilio as a Markdown table (see docs/decisions/packages-by-data-flow.md).

Run from the root of a checkout, with the Python that has this checkout installed: python scripts/measure_structure.py
With --trace it also crawls one page of a synthetic web on loopback and counts the modules that run.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tempfile
import threading
import tokenize
import tomllib
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from types import FrameType

SMALL_MODULE_LINES = 40
NOT_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def code_lines(text: str) -> int:
    """Lines that are neither blank, comment nor docstring."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                docstrings.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - docstrings)


def module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers(texts: dict[str, str]) -> dict[str, set[str]]:
    """For every module the modules that import it or a name from it."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            targets: list[str] = []
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                targets = [target if target in texts else node.module for target in inner]
            for target in targets:
                if target in texts and target != name:
                    found[target].add(name)
    return found


def duplicate_classes(texts: dict[str, str]) -> int:
    names = Counter(
        node.name for text in texts.values() for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)
    )
    return sum(1 for count in names.values() if count > 1)


def measure(source: Path) -> dict[str, object]:
    """The static measures, by the name of their row."""
    paths = sorted((source / "opilio").rglob("*.py"))
    texts = {module_name(path, source): path.read_text(encoding="utf-8") for path in paths}
    sizes = {path: code_lines(path.read_text(encoding="utf-8")) for path in paths}
    own = [size for path, size in sizes.items() if path.name != "__init__.py"]
    folder, largest = Counter(path.parent for path in paths).most_common(1)[0]
    found = importers(texts)
    return {
        "modules": f"{len(paths)} ({len(own)} without `__init__`)",
        "median code lines per module": f"{median(sizes.values()):g} ({median(own):g} without `__init__`)",
        "modules under 40 code lines (without `__init__`)": sum(1 for size in own if size < SMALL_MODULE_LINES),
        "largest module (code lines)": max(own),
        "largest package (modules)": f"{largest} (`{folder.relative_to(source / 'opilio').as_posix()}`)",
        "modules with a single importer": sum(1 for names in found.values() if len(names) == 1),
        "duplicate class names": duplicate_classes(texts),
    }


def modules_of_one_page(source: Path) -> int:
    """The number of modules in which a function runs while `opilio crawl` fetches one page."""
    opilio = [sys.executable, "-u", "-m", "opilio"]
    with tempfile.TemporaryDirectory() as folder:
        web = Path(folder, "web")
        subprocess.run([*opilio, "lab", "make", str(web), "--shape", "pages=60"], check=True, capture_output=True)
        topics = tomllib.loads((web / "topics.toml").read_text(encoding="utf-8"))
        seed = re.search(r"https?://[^\s\"']+", str(topics))
        assert seed is not None
        command = [*opilio, "lab", "serve", str(web), "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            proxy = server.stdout.readline().strip()
            try:
                return len(_trace_crawl(source, ["--proxy", proxy, "--seed", seed[0], "--into", f"{folder}/one"]))
            finally:
                server.terminate()


def _trace_crawl(source: Path, options: list[str]) -> set[str]:
    from opilio.cli.main import main

    called: set[str] = set()
    package = str(source / "opilio")

    def profile(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(package):
            called.add(code.co_filename)

    sys.argv = ["opilio", "crawl", "birds", "--pages", "1", "--workers", "0", "--quiet", *options]
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return called


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", type=Path, default=Path("src"), help="folder that contains the package opilio")
    parser.add_argument("--trace", action="store_true", help="also trace the crawl of one page")
    options = parser.parse_args()
    source = options.source.resolve()
    rows = measure(source)
    if options.trace:
        rows["modules that run in the crawl of one page"] = modules_of_one_page(source)
    print("| measure | value |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
