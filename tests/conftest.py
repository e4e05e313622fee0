"""Stands here so that pytest puts this folder on the path: the shared checks are `checks.<protocol>_checks`."""

from hypothesis import HealthCheck, settings

# A loaded machine is no failure: hypothesis would call an example that took 0.2 s, or slow drawing, one.
settings.register_profile("opilio", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("opilio")
