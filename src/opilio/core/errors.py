"""The one exception tree.

OpilioError
├── UsageError          bad input from a person: exit code 2
│   ├── ConfigError     a file, key or option that can't be used
│   ├── TopicError      a topic that can't be used
│   └── QueryError      a search query that can't be understood
├── CollectionError     a collection that can't be opened or written: exit code 1
├── SeedError           no engine brought a place to begin: exit code 1
├── WebError            an offline web that can't be used: exit code 2
└── ParseError          bytes that are no page (a value of the web, recorded and skipped)

An expected failure of the web (time-out, 404, refused address) is not here: it is a `Failure`
value inside `FetchResult`. Every message is one line that names the file, option or URL and says what to do.
"""


class OpilioError(Exception):
    """Anything Opilio raises on purpose."""

    exit_code = 1


class UsageError(OpilioError):
    """A person gave something that can't be used."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file, key or option is wrong."""


class TopicError(UsageError):
    """A topic can't be built or used."""


class QueryError(UsageError):
    """A search query can't be understood; the message says what to write instead."""


class CollectionError(OpilioError):
    """A collection can't be opened, read or written."""


class SeedError(OpilioError):
    """Engines were asked, and there is still nowhere to begin."""


class OfflineWebError(UsageError):
    """An offline web is damaged or lacks what was asked for."""


class ParseError(OpilioError):
    """Bytes that can't be read as a page."""
