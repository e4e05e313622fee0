"""A collection as a file to take away: JSON lines, CSV, Parquet or WARC, whole before it is sent."""

import tempfile
from collections.abc import Callable, Iterator
from typing import BinaryIO

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opilio.crawl.export import FORMATS, export
from opilio.web.desk import Desk, Raw
from opilio.web.params import Param, read
from opilio.web.view import as_file

SUFFIX = {"jsonl": "jsonl", "csv": "csv", "parquet": "parquet", "warc": "warc.gz"}
EXPORT = Raw(
    path="/c/{name}/export",
    about="The pages as a file.",
    kind="application/octet-stream",
    params=(
        Param(name="format", about="The form of the file.", kind="choice", choices=FORMATS, default="jsonl"),
        Param(name="relevant", about="yes: only relevant pages.", kind="flag", default=False),
    ),
)
CHUNK = 1 << 16


def export_route(desk: Desk) -> Route:
    def endpoint(request: Request) -> Response:
        folder = desk.shelf.folder(request.path_params["name"])
        values = read(EXPORT.params, request.query_params.multi_items())
        file = tempfile.TemporaryFile()  # noqa: SIM115 closed when it has been sent
        try:
            export(folder, values["format"], values["relevant"], file)
        except BaseException:
            file.close()
            raise
        name = f"{request.path_params['name']}.{SUFFIX[values['format']]}"
        return StreamingResponse(_sent(file), media_type=EXPORT.kind, headers=as_file(name))

    return Route(EXPORT.path, endpoint, methods=["GET"])


def _sent(file: BinaryIO) -> Iterator[bytes]:
    with file:
        file.seek(0)
        read_on: Callable[[], bytes] = lambda: file.read(CHUNK)  # noqa: E731 a name for iter()
        yield from iter(read_on, b"")
