"""A crawl from a portal finds the site on its topic, although the first sites it reads are about something else."""

from pathlib import Path

import pytest

from checks.small_webs import BIRDS, SmallWeb, crawl, page, rows, served, settings_for, word
from opilio.cli.text_output import format_why
from opilio.manage.why import why

PORTAL = "http://portal.example/"
DECOY, BIRD_SITE = "http://decoy.example/", "http://other5.example/"
OTHERS = [f"http://other{number}.example/" for number in range(8)]


def portal_web() -> SmallWeb:
    """The portal lists hosts by number. Links of the first one promise birds, but its pages are about trains."""
    web = {PORTAL: page("Manuals of all kinds.", [DECOY, *OTHERS])}
    decoys = [f"{DECOY}bird{number}" for number in range(100)]
    web |= {url: page(f"Trains and rails {word(n)} {word(n + 1)}", decoys) for n, url in enumerate([DECOY, *decoys])}
    for host in OTHERS:
        paths = [f"{host}{number}" for number in range(30)]
        text = BIRDS if host == BIRD_SITE else "Trains and rails"
        web |= {url: page(f"{text} {word(n)} {word(n + 1)}", paths) for n, url in enumerate([host, *paths])}
    return SmallWeb(web)


@pytest.mark.parametrize(("share", "found"), [(0.33, True), (0.0, False)])
def test_crawl_from_a_portal_tries_all_hosts(tmp_path: Path, share: float, found: bool) -> None:
    with served(portal_web()) as server:
        tree = settings_for(
            server,
            [PORTAL],
            strategy="opilio",
            rank={"explore": share},
            engine={"connections": 1, "batch": 1},
            frontier={"patience": 0.0},
            stop={"fetches": 70},
        )
        crawl(tmp_path / "c", tree)
    urls = [url for (url,) in rows(tmp_path / "c", "SELECT url FROM page")]
    assert (len([url for url in urls if url.startswith(BIRD_SITE)]) > 10) is found
    moved = [why(tmp_path / "c", url) for url in urls if why(tmp_path / "c", url).moved_to_front]
    assert bool(moved) is found
    assert all("moved to the front" in "".join(format_why(one)) for one in moved)
