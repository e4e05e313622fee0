"""Drives the stages: configuration, wiring, one visit, the engine, stop rules."""
