"""CPU seconds until `opilio --help` and others have ended: the least of several runs."""

import resource
import subprocess
import sys

RUNS = 7
TARGETS = {"--version": 0.15, "--help": 0.15, "crawl --help": 0.4, "search --help": 0.4, "lab run --help": 0.4}


def cpu_seconds(words: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "opilio", *words], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    for words, target in TARGETS.items():
        least = min(cpu_seconds(words.split()) for _ in range(RUNS))
        print(f"opilio {words:16} {least:6.3f} s CPU   (target {target} s)")


if __name__ == "__main__":
    main()
