"""The command line: data on stdout, progress and messages on stderr. `commands.py` lists every command."""
