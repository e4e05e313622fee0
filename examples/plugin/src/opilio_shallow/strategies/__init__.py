"""Strategies of this package: every TOML file here is one."""
