"""Small documents of each kind, made byte by byte: about wrens, with links."""

import io
import zipfile
from collections.abc import Mapping

_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
_TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/hyperlink"
WREN = "The wren builds a domed nest of moss and leaves; its song is long and loud for so small a bird."


def make_zip(files: Mapping[str, str | bytes]) -> bytes:
    """A zip; a member called `mimetype` is not compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data, zipfile.ZIP_STORED if name == "mimetype" else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def docx(paragraphs: str = "", **more: str | bytes) -> bytes:
    """A DOCX with a heading, a text with a link, a table and a list; `paragraphs` are added as they are."""
    body = f"""<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>Wrens</w:t></w:r></w:p>
    <w:p><w:r><w:t>{WREN} See </w:t></w:r><w:hyperlink r:id="rId7"><w:r><w:t>the owl</w:t></w:r></w:hyperlink>
    <w:del><w:r><w:delText>deleted</w:delText></w:r></w:del></w:p>
    <w:tbl><w:tr><w:tc><w:p><w:r><w:t>bird</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>gram</w:t></w:r></w:p></w:tc>
    </w:tr><w:tr><w:tc><w:p><w:r><w:t>wren</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>9</w:t></w:r></w:p></w:tc></w:tr>
    </w:tbl><w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>first item</w:t></w:r></w:p>{paragraphs}"""
    files: dict[str, str | bytes] = {
        "word/document.xml": f"<w:document {_W} {_R}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f'<w:styles {_W}><w:style w:styleId="Heading1"><w:name w:val="heading 1"/><w:pPr>'
        '<w:outlineLvl w:val="0"/></w:pPr></w:style></w:styles>',
        "word/_rels/document.xml.rels": f'<Relationships><Relationship Id="rId7" Type="{_TYPE}"'
        ' Target="http://b.example/owl" TargetMode="External"/></Relationships>',
        "docProps/core.xml": '<p xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>About wrens</dc:title>'
        "<dc:creator>A. Wren</dc:creator></p>",
    }
    return make_zip({**files, **more})


def epub(*chapters: str) -> bytes:
    """An EPUB with these chapters (bodies of XHTML)."""
    names = [f"c{number}" for number in range(len(chapters))]
    items = "".join(f'<item id="{name}" href="text/{name}.xhtml"/>' for name in names)
    spine = "".join(f'<itemref idref="{name}"/>' for name in names)
    package = f"""<package xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>The book of wrens</dc:title>
    <dc:creator>A. Wren</dc:creator><dc:language>en</dc:language><dc:date>2024-05-01</dc:date></metadata>
    <manifest>{items}<item id="nav" href="nav.xhtml" properties="nav"/></manifest><spine>{spine}</spine></package>"""
    files: dict[str, str | bytes] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<c><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></c>',
        "OPS/book.opf": package,
        "OPS/nav.xhtml": "<html><body><p>contents</p></body></html>",
    }
    for name, chapter in zip(names, chapters, strict=True):
        files[f"OPS/text/{name}.xhtml"] = f"<html><head><title/></head><body>{chapter}</body></html>"
    return make_zip(files)


DOCBOOK = f"""<?xml version="1.0"?><!DOCTYPE article [<!ENTITY bird "wren">]>
<article lang="en"><title>On the &bird;</title><section><title>Nests</title><para>{WREN} See
<ulink url="http://b.example/owl">the owl</ulink>.</para><programlisting>count = 1
if count:
    sing()</programlisting><table><row><entry>wren</entry><entry>9</entry></row></table></section></article>""".encode()


def pdf(pages: list[list[str]], *, title: str = "", link: str = "", outline: str = "") -> bytes:
    """A PDF with these lines on its pages; a link under the last line of the first page, an outline entry for it."""
    objects: list[str] = []

    def add(text: str) -> int:
        objects.append(text)
        return len(objects)

    catalog, tree, font = add(""), add(""), add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    kids = []
    for number, lines in enumerate(pages):
        shown = " ".join(f"({line}) Tj 0 -20 Td" for line in lines)
        content = f"BT /F1 11 Tf 50 750 Td {shown} ET"
        stream = add(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
        annotation = ""
        if link and not number:
            bottom = 750 - 20 * (len(lines) - 1) - 4
            area = f"[48 {bottom} 560 {bottom + 16}]"
            annotation = f"/Annots [<< /Type /Annot /Subtype /Link /Rect {area} /A << /S /URI /URI ({link}) >> >>]"
        kids.append(
            add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 612 792] /Contents {stream} 0 R"
                f" /Resources << /Font << /F1 {font} 0 R >> >> {annotation} >>"
            )
        )
    objects[tree - 1] = f"<< /Type /Pages /Kids [{' '.join(f'{k} 0 R' for k in kids)}] /Count {len(kids)} >>"
    outlines = ""
    if outline:
        root = add("")
        entry = add(f"<< /Title ({outline}) /Parent {root} 0 R /Dest [{kids[0]} 0 R /Fit] >>")
        objects[root - 1] = f"<< /Type /Outlines /First {entry} 0 R /Last {entry} 0 R /Count 1 >>"
        outlines = f"/Outlines {root} 0 R"
    objects[catalog - 1] = f"<< /Type /Catalog /Pages {tree} 0 R {outlines} >>"
    info = add(f"<< /Title ({title}) /Author (A. Wren) /CreationDate (D:20240501120000Z) >>")
    out = b"%PDF-1.4\n"
    offsets = []
    for number, text in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    end = f"trailer << /Size {len(objects) + 1} /Root {catalog} 0 R /Info {info} 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return out + (head + end).encode()
