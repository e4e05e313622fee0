"""Query parameters of pages, declared once: parsed, checked, and described for OpenAPI."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from opilio.core.errors import UsageError

Kind = Literal["text", "integer", "number", "choice", "flag", "list"]
MAX_VALUE_CHARS = 2_000  # characters of one value


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter. `default` is its value if it is missing."""

    name: str
    about: str
    kind: Kind = "text"
    default: Any = ""
    choices: tuple[str, ...] = ()
    minimum: int = 1
    maximum: int = 1_000_000  # of a text: characters, if longer than usual
    required: bool = False


PAGE_PARAM = Param(name="page", about="Page of the table, from 1.", kind="integer", default=1, maximum=100_000)
NOTE_PARAM = Param(name="note", about="Key of a message to show.")
SIZE_PARAM = Param(name="size", about="Rows per page.", kind="integer", default=50, maximum=500)


def max_length(param: Param) -> int:
    """The maximum length of a value."""
    return (
        param.maximum if param.kind == "text" and param.maximum != Param(name="", about="").maximum else MAX_VALUE_CHARS
    )


def parse_params(params: Sequence[Param], given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Parsed values by name; UsageError names an invalid one."""
    found: dict[str, list[str]] = {}
    for name, text in given:
        found.setdefault(name, []).append(text)
    return {param.name: _value(param, found.get(param.name, [])) for param in params}


def _value(param: Param, texts: list[str]) -> object:
    longest = max_length(param)
    if any(len(text) > longest for text in texts):
        raise UsageError(f"{param.name}: longer than {longest} characters")
    if any("\0" in text for text in texts):
        raise UsageError(f"{param.name}: contains a NUL character")
    if param.kind == "list":
        return [text for text in texts if text]
    text = texts[-1].strip() if texts else ""
    if not text:
        if param.required:
            raise UsageError(f"{param.name}: missing ({param.about})")
        return param.default
    return _PARSERS[param.kind](param, text)


def _integer(param: Param, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and param.minimum <= int(text) <= param.maximum):
        raise UsageError(
            f"{param.name} = '{text[:40]}': must be a whole number from {param.minimum} to {param.maximum}"
        )
    return int(text)


def _number(param: Param, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not param.minimum <= number <= param.maximum:
        raise UsageError(f"{param.name} = '{text[:40]}': must be a number from {param.minimum} to {param.maximum}")
    return number


def _choice(param: Param, text: str) -> str:
    if text not in param.choices:
        raise UsageError(f"{param.name} = '{text[:40]}': unknown value; known: {', '.join(param.choices)}")
    return text


def _flag(param: Param, text: str) -> bool:
    return _choice(msgspec.structs.replace(param, choices=("1", "0", "yes", "no")), text) in ("1", "yes")


def _text(_param: Param, text: str) -> str:
    return text


_PARSERS: dict[str, Callable[[Param, str], Any]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "choice": _choice,
    "flag": _flag,
}


def param_schema(param: Param) -> dict[str, Any]:
    """JSON schema of the value, for OpenAPI."""
    if param.kind == "list":
        return {"type": "array", "items": {"type": "string"}}
    if param.kind == "integer":
        return {"type": "integer", "minimum": param.minimum, "maximum": param.maximum, "default": param.default}
    if param.kind == "number":
        return {"type": "number", "minimum": param.minimum, "maximum": param.maximum}
    if param.kind == "choice":
        return {"type": "string", "enum": list(param.choices), "default": param.default}
    if param.kind == "flag":
        return {"type": "string", "enum": ["1", "0", "yes", "no"]}
    return {"type": "string", "maxLength": max_length(param)}
