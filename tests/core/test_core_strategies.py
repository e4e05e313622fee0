"""Strategies: those of Opilio, and those in the user's config folder."""

from pathlib import Path

import pytest

from opilio.core.errors import ConfigError
from opilio.core.strategies import load_strategy, strategy_names, user_strategies
from opilio.topic.setup import resolve_settings


@pytest.fixture(autouse=True)
def _own_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def write_strategy(name: str, text: str) -> None:
    user_strategies().mkdir(parents=True, exist_ok=True)
    (user_strategies() / f"{name}.toml").write_text(text, encoding="utf-8")


def test_file_in_the_config_folder_is_a_strategy() -> None:
    write_strategy("mine", '[rank]\nkind = "shark"\ndepth = 2\n')
    assert "mine" in strategy_names() and "opilio" in strategy_names()
    assert resolve_settings({"strategy": "mine"}).rank == {"kind": "shark", "depth": 2}


def test_file_of_the_user_wins_over_a_builtin_strategy() -> None:
    write_strategy("breadth", '[rank]\nkind = "parent"\n')
    assert load_strategy("breadth") == {"rank": {"kind": "parent"}}


def test_invalid_file_is_named() -> None:
    write_strategy("mine", "[rank\n")
    with pytest.raises(ConfigError, match=r"mine\.toml: is not valid TOML|mine\.toml: not valid TOML"):
        load_strategy("mine")


def test_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"strategy 'opillo': unknown \(did you mean 'opilio'\?\); known: best-first"):
        load_strategy("opillo")
