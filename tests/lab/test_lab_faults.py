"""What `hosts.toml` asks for strikes every crawler of an experiment alike: ours in the replay, others over HTTP."""

import shutil
import sys
from pathlib import Path

import pytest

from opilio.core.errors import OfflineWebError
from opilio.core.urls import host_of
from opilio.lab.experiments.declarations import load_experiment
from opilio.lab.experiments.replay import OfflineWeb, lab_settings, replay_crawl
from opilio.lab.experiments.study import Study, StudyOptions
from opilio.lab.peers.adapter import crawl_by_peer
from opilio.lab.synthetic.changing import FaultInjector, HostFaults, load_faults
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import TopicBrief
from opilio.lab.webs.web import WarcWeb

# A crawler that asks for each of its seeds once, by way of the proxy.
STAND_IN = """#!{python}
import json, sys, urllib.error, urllib.request
job = json.load(open(sys.argv[2]))
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{"http": job["proxy"]}}))
for url in job["seeds"]:
    try:
        opener.open(url).close()
    except urllib.error.HTTPError:
        pass
"""


@pytest.fixture
def offline(small_web: WarcWeb, lab_cache: Path) -> OfflineWeb:
    return OfflineWeb(small_web, ParsedPages.open(small_web, lab_cache, processes=1))


def _on(web: WarcWeb, faults: dict[str, HostFaults], *, failing: bool) -> list[str]:
    """Pages on hosts that fail, or that are slow."""
    names = {name for name, fault in faults.items() if bool(fault.error_rate) == failing}
    return [url for url in web.urls if host_of(url) in names and not url.endswith("/robots.txt")][:30]


def _replayed(offline: OfflineWeb, urls: list[str]) -> dict[str, int]:
    settings = lab_settings("breadth", TopicBrief(name="birds"), urls, budget=0)  # to the end: failing hosts come last
    return {fetch.url: fetch.status for fetch in replay_crawl(offline, settings).fetches if fetch.url in urls}


def test_replayed_crawl_meets_hosts_that_fail_and_are_slow(offline: OfflineWeb, small_folder: Path) -> None:
    faults = load_faults(small_folder)
    failing = _replayed(offline, _on(offline.web, faults, failing=True))
    assert 0 < sum(status == 503 for status in failing.values()) < len(failing)
    slow = _on(offline.web, faults, failing=False)
    trace = replay_crawl(offline, lab_settings("breadth", TopicBrief(name="birds"), slow, len(slow)))
    delays = [faults[host_of(f.url)].delay_s for f in trace.fetches if host_of(f.url) in faults]
    assert trace.virtual_s >= sum(delays) > 0


def test_web_without_faults_is_replayed_as_recorded(
    offline: OfflineWeb, small_folder: Path, tmp_path: Path, lab_cache: Path
) -> None:
    calm = shutil.copytree(small_folder, tmp_path / "calm")
    (calm / "hosts.toml").unlink()
    web = WarcWeb.open(calm, lab_cache)
    urls = _on(web, load_faults(small_folder), failing=True)
    trace = _replayed(OfflineWeb(web, ParsedPages.open(web, lab_cache, processes=1)), urls)
    assert 503 not in trace.values()


def test_peer_meets_the_same_errors_as_the_replay(
    offline: OfflineWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = tmp_path / "opilio" / "lab" / "peers" / f"scrapy-py3{sys.version_info.minor}"
    (place / "bin").mkdir(parents=True)
    (place / "ready").touch()
    python = place / "bin" / "python"
    python.write_text(STAND_IN.format(python=sys.executable))
    python.chmod(0o755)
    faults = offline.faults()
    urls = _on(offline.web, dict(faults), failing=True)
    theirs = crawl_by_peer("scrapy", offline.web, TopicBrief(name="birds"), urls, len(urls), faults)
    assert {fetch.url: fetch.status for fetch in theirs.fetches} == _replayed(offline, urls)


def test_throttled_host_answers_again_when_a_second_has_passed() -> None:
    trouble = FaultInjector({"a.example": HostFaults(name="a.example", most_per_s=2)})
    times = (0.0, 0.1, 0.2, 1.05)
    assert [trouble.next_fault("a.example", "/", now).status for now in times] == [0, 0, 429, 0]
    assert trouble.next_fault("a.example", "/robots.txt", 1.05).status == 0


def test_hosts_file_that_is_wrong_is_reported_before_the_first_run(small_folder: Path, tmp_path: Path) -> None:
    web = shutil.copytree(small_folder, tmp_path / "web")
    (web / "hosts.toml").write_text("[[host]]\nname = 3\n")
    study = Study(load_experiment("compare"), StudyOptions(webs=(web,)))
    with pytest.raises(OfflineWebError, match=r"hosts\.toml: "):
        study.jobs()


@pytest.mark.parametrize("wrong", ["delay_s = nan", "delay_s = inf", "delay_s = -1.0", "error_rate = 7.0"])
def test_faults_beyond_reason_are_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "hosts.toml").write_text(f'[[host]]\nname = "a.example"\n{wrong}\n')
    key = wrong.partition(" ")[0]
    with pytest.raises(OfflineWebError, match=rf"hosts\.toml: host\[0\]\.{key}: expected number"):
        load_faults(tmp_path)
