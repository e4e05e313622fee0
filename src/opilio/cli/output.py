"""What commands print: data on stdout, messages on stderr."""

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import msgspec

# Control characters except tab and newline.
_CONTROL_CHARACTERS = dict.fromkeys((*range(0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0)))


def print_json(values: "dict[str, Any] | msgspec.Struct") -> None:
    """One object on stdout with the version of its schema, always in UTF-8 (RFC 8259)."""
    import msgspec

    sys.stdout.flush()
    fields: dict[str, Any] = msgspec.to_builtins(values)
    sys.stdout.buffer.write(msgspec.json.encode({"schema": 1, **fields}) + b"\n")


def print_text(text: str) -> None:
    """Lines on stdout. Titles and anchors come from web pages: control characters in them must not reach a terminal."""
    sys.stdout.write(text.translate(_CONTROL_CHARACTERS) + "\n")


def print_message(text: str) -> None:
    """A line on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
