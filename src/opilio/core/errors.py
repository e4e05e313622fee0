"""The exception hierarchy.

OpilioError
├── UsageError          invalid input from the user: exit code 2
│   ├── ConfigError     a file, key or option that can't be used
│   ├── TopicError      a topic that can't be used
│   ├── MissingExtraError  an optional package that is not installed
│   ├── QueryError      a search query that can't be parsed
│   └── OfflineWebError an offline web that can't be used
├── CollectionError     a collection that can't be opened or written: exit code 1
│   └── ServerError     a server of the collection that can't be reached or used: exit code 2
├── SeedError           no seed engine returned a URL: exit code 1
└── ParseError          a response that is not a page (recorded and skipped)

Expected failures of the web (time-out, 404, refused address) are not exceptions but `Failure` values in a
`FetchResult`. Every message is one line that names the file, option or URL and says what to do.
"""


class OpilioError(Exception):
    """Base class of all errors that Opilio raises itself."""

    exit_code = 1


class UsageError(OpilioError):
    """The user's input can't be used."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file, key or option is invalid."""


class TopicError(UsageError):
    """A topic can't be built or used."""


class MissingExtraError(UsageError):
    """An optional package is not installed; the message names the extra that installs it."""


class QueryError(UsageError):
    """A search query can't be parsed; the message says what to write instead."""


class CollectionError(OpilioError):
    """A collection can't be opened, read or written."""


class ServerError(CollectionError):
    """A server that a collection needs (database, object storage, index) can't be reached, or refuses this user."""

    exit_code = 2


class SeedError(OpilioError):
    """The seed engines returned no URL to start from."""


class OfflineWebError(UsageError):
    """An offline web is damaged or incomplete."""


class ParseError(OpilioError):
    """A response can't be parsed as a page."""


def errors_of_damage() -> tuple[type[Exception], ...]:
    """Errors that a damaged file can cause. Only called when an error ends the work: importing takes time."""
    import sqlite3
    import zlib
    from typing import cast

    import msgspec
    from isal import isal_zlib

    # Not that of zlib; its stubs declare an instance.
    isal_error = cast(type[Exception], isal_zlib.error)
    libraries = (sqlite3.Error, zlib.error, isal_error, msgspec.MsgspecError)
    return (ArithmeticError, AttributeError, EOFError, LookupError, TypeError, ValueError, *libraries)
