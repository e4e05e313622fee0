"""Pages as they are, damaged in every way we could think of: still pages, and their promises hold."""

import pydoc
import random
from functools import cache

import pytest

from opilio.core.errors import ParseError
from opilio.core.protocols import Parser
from opilio.testing.stages import CONTENT_TYPES, answer, check_page

PAGE = b"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Eurasian wren &ndash; Birds</title>
<meta name="description" content="A very small bird"><link rel="canonical" href="/wren"><base href="/birds/">
<script>if (a < b) { document.write("<a href='x'>no</a>") }</script><style>p > a { color: red }</style></head>
<body class="page wide"><header><h1>Birds</h1><nav><ul><li><a href="/">Home</a><li>
<a href="all.html">All birds</a></ul></nav></header>
<main><article id="bird-17"><header><h1>Eurasian wren</h1></header>
<p>The <b>Eurasian <i>wren</i></b> (<a href="Troglodytes%20troglodytes">Troglodytes&nbsp;troglodytes</a>) is a bird of
the
family <a title="Wrens" href='http://other.example/wrens?utm_source=x&id=1#top'>Troglodytidae</a>.<br>
It sings loudly.</p>
<h2>Range</h2><table border=1><tr><th>Country<th>Pairs<tr><td><a href="uk">UK</a><td>8&thinsp;000&nbsp;000</table>
<p>See <a href="map"><img src="m.png" alt="the map"></a>, or <a href="mailto:wren@example.org">write</a>.</p>
<pre>  T. t. troglodytes\n  T. t. indigenus</pre>
<form><select><option>one<option>two</select><textarea>x</textarea></form>
</article></main><aside><a href=ad><div>Buy <p>seeds</div></a></aside>
<map name=m><area href="north" alt="North"></map><iframe src="song" title="Song">no frames</iframe><!-- end > -->
<footer><p>&copy; 2026 <a rel="license nofollow" href="//licence.example/">Licence</a></footer></body></html>"""

SCRAPS = (
    b"<",
    b">",
    b'"',
    b"'",
    b"</a>",
    b"<a href=z>",
    b"<table>",
    b"</p>",
    b"<!--",
    b"\x00",
    b"\x02",
    b"\xff",
    b"&#4;",
    b"<svg>",
)


@cache
def real_pages() -> tuple[bytes, ...]:
    """Pages that every machine with Python can make: its own documentation, with tables in tables and no end tags."""
    modules = ("argparse", "difflib", "html.parser", "sqlite3")
    return PAGE, *(pydoc.HTMLDoc().document(pydoc.locate(name), name).encode() for name in modules)


def damaged(draw: random.Random) -> bytes:
    body = bytearray(draw.choice(real_pages()))
    for _ in range(draw.randrange(1, 30)):
        at = draw.randrange(len(body) + 1)
        match draw.randrange(4):
            case 0:
                body[at:at] = draw.choice(SCRAPS)
            case 1:
                del body[at : at + draw.randrange(80)]
            case 2:
                start = draw.randrange(len(body) + 1)
                body[at:at] = body[start : start + draw.randrange(300)]
            case _:
                body[at : at + 1] = bytes([draw.randrange(256)])
    return bytes(body)


def test_undamaged_page_is_read_well(parser: Parser) -> None:
    page = parser.parse(answer(PAGE))
    check_page(page)
    assert [link.anchor for link in page.links] == [
        *(
            "Home",
            "All birds",
            "Troglodytes troglodytes",
            "Troglodytidae",
            "UK",
            "the map",
            "Buy seeds",
            "North",
            "Song",
        ),
        "Licence",
    ]
    assert page.main_text.startswith(
        "Eurasian wren\nThe Eurasian wren (Troglodytes troglodytes) is a bird of the family"
    )


@pytest.mark.parametrize(
    ("parser", "seed"),
    [*(("turbohtml", seed) for seed in range(20)), *(("selectolax", seed) for seed in range(20, 26))],
    indirect=["parser"],
)
def test_damaged_page_gives_page_or_parse_error(parser: Parser, seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        body = damaged(draw) if draw.random() < 0.8 else draw.randbytes(draw.randrange(20_000))
        try:
            page = parser.parse(answer(body, draw.choice(CONTENT_TYPES)))
        except ParseError as error:
            assert str(error).startswith("content-type")
            continue
        check_page(page)
        assert len(page.flow) <= 4 * len(body)
