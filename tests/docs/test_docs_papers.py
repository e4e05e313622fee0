"""The table of disagreements (X-01 … X-16) says what the strategies are set to."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from opilio.engine.wiring.settings import complete_settings
from opilio.topic.setup import resolve_settings

PAGE = Path(__file__).resolve().parents[2] / "docs" / "strategies.md"
MODES = {"ours": ["opilio"], "S0": ["s0"], "S1": ["s1-bayes", "s1-tree", "s1-neural"], "S2": ["s2-treasure"]}
MODES |= {"S3": ["s3-tswt"], "S4": ["s4-static", "s4-dynamic"]}


def rows() -> dict[str, dict[str, str]]:
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if re.match(r"\| (X-|id \| question)", line)]
    head, *found = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(head, row, strict=True)) for row in found}


def test_every_disagreement_is_reported() -> None:
    assert list(rows()) == [f"X-{number:02}" for number in range(1, 17)]


def values(mode: str, names: list[str]) -> Iterator[str]:
    settings: dict[str, Any] = msgspec.to_builtins(complete_settings(resolve_settings({"strategy": mode})))
    for section, _, name in (full.partition(".") for full in names):
        if name in settings[section]:
            yield msgspec.json.encode(settings[section][name]).decode().strip('"')


@pytest.mark.parametrize("mode", MODES)
def test_cell_names_what_a_strategy_is_set_to(mode: str) -> None:
    for name, row in rows().items():
        result = re.findall(r"`([^`]+)`", row[mode])
        for word in result:
            set_to = {v for strategy in MODES[mode] for v in values(strategy, re.findall(r"`([^`]+)`", row["setting"]))}
            assert word in set_to, f"{name}, {mode}: {word}, but it is {set_to}"
        for strategy in MODES[mode] if "static:" not in row[mode] else ():
            own = set(values(strategy, re.findall(r"`([^`]+)`", row["setting"])))
            assert not result or not own or own & set(result), f"{name}, {strategy}: {own}"
