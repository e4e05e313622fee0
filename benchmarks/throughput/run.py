"""Whole crawls of the same 5,000 real pages on 20 loopback hosts: Opilio, Scrapy, Scrapy tuned, a bare line.

python benchmarks/throughput/run.py                             three interleaved rounds (needs nginx, apt and dpkg)
python benchmarks/throughput/run.py --only opilio --rounds 1    ours alone
python benchmarks/throughput/run.py --strategy s0 --strategy breadth --only opilio,bare
python benchmarks/throughput/run.py --strategy opilio --strategy "opilio rank.learn=false judge.share=0.0" --only opilio
python benchmarks/throughput/run.py --strategy opilio --only opilio --pages 1500 --before old/bin/opilio    two versions

Opilio runs as `opilio crawl` with everything on: robots.txt, judging, ranking, duplicates, WARC, database, workers. The
whole command is measured, from start to exit; nginx is not. Pages are collected into a temporary folder once
(`sites.py` says how), Scrapy into a virtual environment beside them.
"""

import argparse
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path
from statistics import median

import nginx
from measured import Run, measure
from sites import HOSTS, address_of, collect

HERE = Path(__file__).parent
TOPIC = "database queries, indexes and transactions"
TARGETS = (("scrapy", "pages_per_s", 15.0), ("scrapy tuned", "pages_per_s", 4.0), ("bare line", "cpu_ms", 3.0))


OURS = str(Path(sysconfig.get_path("scripts")) / "opilio")


def opilio_command(
    program: str, folder: Path, pages: int, strategy: str, seeds: list[str], more: list[str]
) -> list[str]:
    options = ["--strategy", strategy, "--into", str(folder / "collection"), "--pages", str(pages)]
    options += ["--allow-private", "--json", "--quiet"]
    # All versions crawl the same number of pages.
    always = ("politeness.delay_s=0", "stop.harvest_below=0")
    settings = [x for s in (*always, *more) for x in ("--set", s)]
    return [program, "crawl", TOPIC, *options, *settings, *(x for url in seeds for x in ("--seed", url))]


def scrapy_python(folder: Path) -> str:
    home = folder / "scrapy"
    python = str(home / "bin" / "python")
    if not home.exists():
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "scrapy", "uvloop", "selectolax"], check=True)
    return python


def commands(folder: Path, port: int, chosen: set[str], arguments: argparse.Namespace) -> dict[str, list[str]]:
    seeds = [f"http://{address_of(n)}:{port}/" for n in range(HOSTS)]
    text = str(folder / "text")
    found: dict[str, list[str]] = {}
    if "opilio" in chosen:
        for result in arguments.strategy or ["s0"]:
            strategy, *settings = result.split()
            settings += arguments.set or []
            for name, program in (("before", arguments.before), ("opilio", OURS)):
                if program:
                    command = opilio_command(program, folder, arguments.pages, strategy, seeds, settings)
                    found[f"{name} {result}"] = command
    if "bare" in chosen:
        found["bare line"] = [sys.executable, str(HERE / "bare.py"), *seeds]
    if "tuned" in chosen:
        found["scrapy tuned"] = [scrapy_python(folder), str(HERE / "scrapy_tuned.py"), text, *seeds]
    if "scrapy" in chosen:
        found["scrapy"] = [scrapy_python(folder), str(HERE / "scrapy_stock.py"), text, *seeds]
    return found


def table(runs: dict[str, list[Run]]) -> None:
    print(f"\n{'crawler':<46}{'pages':>7}{'pages/s':>9}{'CPU ms/page':>13}{'peak MB':>9}   (median of rounds)")
    middle = {}
    for name, each in runs.items():
        speed, cpu = median(r.pages_per_s for r in each), median(r.cpu_ms for r in each)
        middle[name] = {"pages_per_s": speed, "cpu_ms": cpu}
        peak = median(r.peak_bytes for r in each) / 1e6
        print(f"{name:<46}{each[-1].pages:>7}{speed:>9.0f}{cpu:>13.2f}{peak:>9.0f}")
    for ours in (name for name in middle if name.startswith("opilio")):
        if earlier := runs.get(f"before{ours.removeprefix('opilio')}"):
            ratios = ", ".join(f"{now.cpu_ms / then.cpu_ms:.2f}" for now, then in zip(runs[ours], earlier, strict=True))
            print(f"{ours}: {ratios} times the CPU time of the version before, round by round")
        for other, figure, target in TARGETS:
            if other in middle:
                ratio = middle[ours][figure] / middle[other][figure]
                sign = "at least" if figure == "pages_per_s" else "at most"
                print(f"{ours}: {ratio:.2f} times the {figure} of {other} (target: {sign} {target:.0f})")


def versions(folder: Path) -> str:
    ours = [f"{name} {version(name)}" for name in ("opilio", "pycurl", "turbohtml", "uvloop")]
    python = folder / "scrapy" / "bin" / "python"
    if python.exists():
        code = "from importlib.metadata import version as v; print(*(f'{n} {v(n)}' for n in ('scrapy', 'selectolax')))"
        ours.append(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
    return ", ".join([f"Python {sys.version.split()[0]}", f"nginx {nginx.version()}", *ours])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "opilio-throughput")
    parser.add_argument("--port", type=int, default=8931)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--strategy", action="append", help="of Opilio, settings may follow; may be given several times (default s0)"
    )
    parser.add_argument("--only", default="opilio,bare,tuned,scrapy", help="which crawlers, with commas")
    parser.add_argument("--pages", type=int, default=0, help="end after this number of pages; 0 for all")
    parser.add_argument("--before", help="the command `opilio` of another version, measured in turns with this one")
    parser.add_argument("--set", action="append", help="a setting for Opilio: engine.workers=0")
    arguments = parser.parse_args()
    arguments.folder.mkdir(exist_ok=True)
    print(collect(arguments.folder))
    runs: dict[str, list[Run]] = {}
    with nginx.serving(arguments.folder, arguments.port):
        for _ in range(arguments.rounds):
            chosen = set(arguments.only.split(","))
            for name, command in commands(arguments.folder, arguments.port, chosen, arguments).items():
                shutil.rmtree(arguments.folder / "collection", ignore_errors=True)
                run = measure(command)
                runs.setdefault(name, []).append(run)
                print(f"{name}: {run.pages} pages, {run.pages_per_s:.0f}/s, {run.cpu_ms:.2f} ms CPU", flush=True)
    table(runs)
    print(versions(arguments.folder))


if __name__ == "__main__":
    main()
