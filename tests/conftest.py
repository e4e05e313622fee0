"""Settings of the whole suite. It is at the top of the tests so that pytest puts this folder on the path: what tests
share is imported from `checks`.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from checks.marking import marks_of
from checks.paper_tests import PaperTests

# The tests use loopback only, but Python's own HTTP client would send these requests to the machine's proxy.
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]


# A loaded machine is not a failure, so examples have no deadline. They are the same in every run: a test fails because
# of a change, not by chance. `--hypothesis-profile wander` looks for new examples, `quick` tries only a few.
settings.register_profile("wander", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("opilio", settings.get_profile("wander"), derandomize=True)
settings.register_profile("quick", settings.get_profile("opilio"), max_examples=20)
settings.load_profile("opilio")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(PaperTests.read(), "paper-tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test by what it uses, before `-m` selects."""
    for item in items:
        if isinstance(item, pytest.Function):
            for mark in sorted(marks_of(item)):
                item.add_marker(mark)
