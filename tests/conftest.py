"""Stands here so that pytest puts this folder on the path: the shared checks are `checks.<protocol>_checks`."""

import os

from hypothesis import HealthCheck, settings

# The tests ask loopback only, and Python's own client would ask the machine's proxy for that, too.
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]


# A loaded machine is no failure: hypothesis would call an example that took 0.2 s, or slow drawing, one. The examples
# are the same in every run, so that a change fails for what it did; `--hypothesis-profile wander` looks for new ones.
settings.register_profile("wander", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("opilio", settings.get_profile("wander"), derandomize=True)
settings.load_profile("opilio")
