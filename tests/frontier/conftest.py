"""Makes the shared conformance checks importable as `checks.<protocol>_checks`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
