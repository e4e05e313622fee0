"""Stands here so that pytest puts this folder on the path: the shared checks are `checks.<protocol>_checks`."""
