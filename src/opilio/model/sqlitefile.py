"""How a SQLite database is opened where its folder may be somebody else's. Opens nothing itself."""

import os
from pathlib import Path


def openable(database: Path) -> str:
    """What to open, as a URI or a path (a path that begins with "/" is no URI). SQLite makes files beside a database
    that is read too; where it can't, and none were left, the database is all there is and stays as it is."""
    beside = database.with_name(f"{database.name}-wal")
    if os.access(database.parent, os.W_OK) or beside.exists():
        return str(database.absolute())
    return f"{database.absolute().as_uri()}?immutable=1"
