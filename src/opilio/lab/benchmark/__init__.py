"""The pre-registered benchmark: its webs, made from manuals that install by name, and its runs."""
