"""Stands here so that pytest puts this folder on the path: the shared checks are `checks.<protocol>_checks`.

There must be no other conftest.py: doctest collection trips over two modules of that name.
"""
