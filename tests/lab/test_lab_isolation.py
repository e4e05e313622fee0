"""No crawler sees the labels: what is handed to one neither holds nor loads them."""

import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

from opilio.lab.webs.topics import TopicBrief, load_topics
from opilio.lab.webs.web import WarcWeb

CRAWLER_SIDE = (
    "webs.web",
    "webs.pages",
    "webs.topics",
    "experiments.replay",
    "server.server",
    "synthetic.changing",
    "synthetic.web",
)


def test_nothing_on_the_crawler_side_loads_the_labels() -> None:
    imports = "; ".join(f"import opilio.lab.{name}" for name in CRAWLER_SIDE)
    check = f"import sys; {imports}; sys.exit('opilio.lab.webs.labels' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_web_answers_the_same_when_the_labels_are_removed(
    small_folder: Path, small_web: WarcWeb, tmp_path: Path
) -> None:
    bare = shutil.copytree(small_folder, tmp_path / "bare")
    (bare / "labels.tsv").unlink()
    web = WarcWeb.open(bare, tmp_path / "cache")
    assert list(web.urls) == list(small_web.urls)
    assert web.digest == small_web.digest
    assert all(web.response(n) == small_web.response(n) for n in range(0, len(web), 13))


def test_brief_of_a_topic_holds_no_label(small_folder: Path) -> None:
    for topic in load_topics(small_folder)[0]:
        result = msgspec.json.encode(topic.brief).decode()
        assert isinstance(topic.brief, TopicBrief)
        assert not any(label in result for label in topic.relevant)
