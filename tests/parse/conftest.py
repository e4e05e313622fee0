"""The HTML parser with each of the libraries that can build its trees."""

from typing import get_args

import pytest

from opilio.core.protocols import Parser
from opilio.core.settings import HtmlLibrary
from opilio.parse.html import HtmlParser


@pytest.fixture(params=get_args(HtmlLibrary))
def parser(request: pytest.FixtureRequest) -> Parser:
    return HtmlParser(library=request.param)
