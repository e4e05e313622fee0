"""Taking a word about a page back, killed at every step: nothing lost, nothing learned twice."""

import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

from checks.learning_webs import learning_tree, mixed_web, restored
from checks.small_webs import CONTEXT, SmallWeb, crawl, rows, served
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.verify import verify

TRAIN = "http://trains.example/"
STEPS = frozenset({"execute", "executemany"})
# Between BEGIN and COMMIT one moment is as good as another: only their borders and the new label are steps.
WRITERS = frozenset({"transaction", "append_labels"})
VERDICTS = "SELECT url, relevant, score, reasons FROM page ORDER BY url"


def label_until(step: int, folder: Path, given: LabelRequest) -> None:
    """Label, and be killed before this step."""
    left = step

    def count(frame: FrameType, event: str, what: Any) -> None:
        nonlocal left
        if event == "c_call" and what.__name__ in STEPS and frame.f_code.co_name in WRITERS:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)
    label_pages(folder, [given], 7.0)
    sys.setprofile(None)


def killed_before(step: int, folder: Path, given: LabelRequest) -> bool:
    """Label in a process of its own that is killed before this step; False: it needed fewer steps."""
    process = CONTEXT.Process(target=label_until, args=(step, folder, given))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
    return process.exitcode != 0


def test_word_is_taken_back_once_however_often_that_is_killed(tmp_path: Path) -> None:
    labelled, wanted, undo = tmp_path / "c", tmp_path / "wanted", LabelRequest(TRAIN, None, "test")
    with served(SmallWeb(mixed_web())) as server:
        crawl(labelled, learning_tree(server, stop={"pages": 20}, engine={"connections": 2, "batch": 1}))
    label_pages(labelled, [LabelRequest(TRAIN, True, "test")], 5.0)
    shutil.copytree(labelled, wanted)
    assert label_pages(wanted, [undo], 7.0)[1] == []
    verdicts, model = rows(wanted, VERDICTS), restored(wanted).committee.snapshot()
    kills = 0
    while killed_before(kills, folder := Path(shutil.copytree(labelled, tmp_path / str(kills))), undo):
        kills += 1
        label_pages(folder, [undo], 7.0)  # whether it was stored or not: asked for again, it is done
        assert (rows(folder, VERDICTS), restored(folder).committee.snapshot()) == (verdicts, model)
        assert verify(folder) == []
    assert kills >= 7
    assert label_pages(folder, [undo], 9.0)[1], "there is nothing more to take back"
