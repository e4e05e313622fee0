"""Both libraries that build trees give the same pages, except for the differences that docs/security.md names."""

import sys

import pytest

from opilio.core.errors import ConfigError
from opilio.core.settings import HtmlLibrary, Tree
from opilio.engine.wiring.assembly import AnalysisOptions, build_shared_parts
from opilio.engine.wiring.settings import complete_settings
from opilio.parse.html import HtmlParser
from opilio.testing.stages import answer, check_page
from opilio.topic.setup import resolve_settings

# A tag that loses its attributes in one of the libraries, which shows which of them is used.
MANY_ATTRIBUTES = answer(f"<a href=1 {' '.join(f'a{number}' for number in range(6_000))}>a</a>")

CASES = {
    "nesting": "<div><ul><li>a<ul><li>b <a href=1>c</a></ul><li>d</ul><div>e<section>f</section>g</div></div>",
    "misnested formatting": "<p><b>a<i>b</b>c</i>d <a href=1><b>e</a>f</b>g",
    "link in link": "<a href=1>one <a href=2>two</a> three</a> four",
    "block closes paragraph": "<p>a<div>b</div>c</p>d<p>e<h2>f</p>g</h2>",
    "text in table": "<table>a<tr><td>b<a href=1>c</a></td>d<tr><p>e</p></table>f",
    "nested tables": "<table><tr><td>a<table><tr><td>b</table>c<td>d<a href=1>e</table>",
    "end tags without start": "</div></p></br>a</table></b></li><a href=1>b</a></a>",
    "list without ends": "<ul><li>a<li><a href=1>b<li>c<li>d</ul><dl><dt>e<dd>f<dt>g</dl>",
    "unclosed attribute": "<p>a<a href='1>b</a><p>c' title=x>d</a>e",
    "attributes without quotes": "<a href=1?a=b&amp;c=d class=x/y>a</a><a href = '2' >b</a><a href=3/>c</a><a HREF=4>d",
    "repeated attributes": "<a href=1 href=2 title=x>a</a><html lang=en><html lang=fr id=x>",
    "markup in a value": '<a title="<b>x</b> > y" href=1>a</a><img alt="</a>"><a href=2>b',
    "entities": "<p>&amp;lt; &lt;b&gt; &eacute &eacutex &notin; &notit; &#233; &#x80; &#0; &#xD800; &#1114112; &no;",
    "entities in values": "<a href='1?a=b&copy=c&copy;&lt=d' title='&quot;&amp;lt;'><img></a>",
    "base": "<base href=/other/place/><base href=/no/><a href=x>x</a><a href=../y>y</a><a href=//z.example/?q>z</a>",
    "head in body": "a<title>T</title><meta name=description content=D><link rel=canonical href=/c>b<base href=/d/>",
    "noscript": "<head><noscript><img src=x></noscript><title>T</title><body>a<noscript><a href=1>b</a></noscript>",
    "raw text": "<script>'<a href=1>'</script><style><a href=2></style><textarea><a href=3></textarea><xmp><a></xmp>a",
    "script with comment": "<script><!-- <script> </script> --></script>a<a href=1>b</a>",
    "comments": "a<!-->b<!--->c<!-- > -- -->d<!x>e<?php x ?>f</ g>h<![CDATA[i]]>j",
    "templates": "<template><a href=1>a</a><tr><td>b</template>c<a href=2>d</a>",
    "foreign elements": "<svg><a href=1>a</a><p>b<svg><desc><a href=2>c</a></desc></svg><math><mi>d<p>e</math>f",
    "frames": "<frameset><frame src=1 name=a><frame src=2><noframes><a href=3>b</a></noframes></frameset>",
    "inline frame": "<iframe src=1 title=a><a href=2>b</a></iframe>c<map><area href=3 alt=d></map>",
    "select": "<select><option>a<option>b<p>c</select>d<datalist><option>e</datalist>",
    "forms": "<form>a<form>b</form>c<button>d<button>e</button><label>f<input value=g></label>",
    "blocks in inline elements": "<span>a<div>b</div>c</span><a href=1><div>d</div>e</a>f<b><p>g<ul><li>h</ul>i</b>j",
    "white space": "<p> a \n b\t<b> c </b> d<br>e<br><br>f<pre>\n  g\n\n  h</pre>i&nbsp; &nbsp;j",
    "boilerplate": "<header>a</header><nav><a href=1>b</a></nav><main><header>c</header>d</main><aside>e</aside>f",
    "headings": "<h1>a <a href=1>b</a></h1><h2>c<h3>d</h2>e<a href=2>f</a><hgroup><h2>g</h2><p>h</hgroup>",
    "zero bytes": "a\x00b<p\x00q>c<a hr\x00ef=1 href='2\x00'>d</a><!--\x00--><script>\x00</script>&#0;",
    "names": "<A HREF=1>a</A><X-Y Z=1>b</X-Y><a:b>c</a:b><1>d<_>e<a_b>f<p/>g",
    "end within a tag": "<p>a<a href=1>b</a><a href=2",
    "after the end": "<html><body>a</body></html>b<a href=1>c</a><!-- d --><p>e",
}
ENCODINGS = {
    "utf-8": ("text/html", "<p>é鳥<a href='?q=é'>ж".encode()),
    "broken utf-8": ("text/html; charset=utf-8", b"<p>\xc3\x28\xe9\xf0\x9f\x98<a href='?q=\xff'>x"),
    "windows-1251 by header": ("text/html; charset=windows-1251", "<p>ж<a href='?q=ж'>ж".encode("cp1251")),
    "koi8-r by declaration": ("text/html", "<meta charset=koi8-r><p>ж<a href='?q=ж'>ж".encode("koi8-r")),
    "shift_jis": ("text/html; charset=sjis", "<p>表<a href='?q=表'>鳥".encode("cp932")),
    "latin-1 is windows-1252": ("text/html; charset=latin1", b"<p>\x80\x81\x9f\xe9"),
    "mark before header": ("text/html; charset=latin1", "\ufeff<p>é".encode()),
    "utf-16": ("text/html", "\ufeff<p>é鳥".encode("utf-16-le")),
    "xml declaration": ("application/xhtml+xml", "<?xml version='1.0' encoding='EUC-JP'?><p>鳥".encode("euc-jp")),
    "not declared": ("text/html", ("<p>" + "Крапивник — маленькая певчая птица. " * 10).encode("cp1251")),
    "unknown label": ("text/html; charset=none", "<p>é".encode()),
}


@pytest.mark.parametrize("case", CASES)
def test_written_page_is_the_same(case: str) -> None:
    fetched = answer(CASES[case])
    assert HtmlParser(library="selectolax").parse(fetched) == HtmlParser().parse(fetched)


@pytest.mark.parametrize("case", ENCODINGS)
def test_encoding_is_the_same(case: str) -> None:
    content_type, body = ENCODINGS[case]
    fetched = answer(body, content_type)
    assert HtmlParser(library="selectolax").parse(fetched) == HtmlParser().parse(fetched)


@pytest.mark.parametrize(("library", "links"), [("", 1), ("turbohtml", 1), ("selectolax", 0)])
def test_crawl_uses_the_library_of_its_settings(library: str, links: int) -> None:
    tree: Tree = {"topic": {"keywords": ["wren"]}, "engine": {"html_library": library} if library else {}}
    shared = build_shared_parts(complete_settings(resolve_settings(tree)), AnalysisOptions())
    assert len(shared.parser.parse(MANY_ATTRIBUTES).links) == links


@pytest.mark.parametrize("library", ["turbohtml", "selectolax"])
@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<span>a<div>b</div>c</span>", "a\nb\nc"),
        ("<b><p>a</p></b>b", "a\nb"),
        ("x <font>a<h2>b</h2></font> y", "x a\nb\ny"),
        ("<x-card><section>a</section><i>b</i></x-card>", "a\nb"),
        ("<i><div>a</div><div>b</div></i>", "a\nb"),
        ("<b>\x04\x02<p>a</p>b</b>", "a\nb"),
        ("<b><p>a</p>b<rp><a href=1>c</a></rp></b>", "a\nbc"),
    ],
)
def test_block_in_an_inline_element_ends(html: str, text: str, library: HtmlLibrary) -> None:
    assert HtmlParser(library=library).parse(answer(html)).text == text


def test_link_around_blocks_is_one_link() -> None:
    page = HtmlParser().parse(answer("a <a href=1>b<div>c</div>d</a> e"))
    assert [link.anchor for link in page.links] == ["b c d"]
    assert page.text == "a\nb c d\ne"


def test_unknown_library_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"engine\.html_library"):
        resolve_settings({"engine": {"html_library": "lxml"}})


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "opilio.parse.lexbor_tree", raising=False)
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(ConfigError, match=r"pip install 'opilio\[selectolax\]'"):
        HtmlParser(library="selectolax")


@pytest.mark.parametrize(
    "body",
    [
        "<p " + " ".join(f"a{i}='>'" for i in range(50_000)) + "><a href=x>x</a>",
        "<p " + "/".join(f"a{i}" for i in range(50_000)) + "><a href=x>x</a>",
        "".join(f"<x{i}>" for i in range(30_000)) + "<a href=x>x</a>",
    ],
    ids=["quoted-brackets", "slashes", "distinct-names"],
)
def test_markup_that_takes_quadratic_time_is_limited(body: str) -> None:
    page = HtmlParser(library="selectolax").parse(answer(body))
    check_page(page)
    assert [link.anchor for link in page.links] == ["x"]


def test_large_value_of_one_attribute_is_kept() -> None:
    body = f"<p>a<a href=1 title='{'x' * 50_000}'><img src='data:;base64,{'abc' * 30_000}' alt=b></a>c"
    page = HtmlParser(library="selectolax").parse(answer(body))
    assert [link.anchor for link in page.links] == ["b"]
