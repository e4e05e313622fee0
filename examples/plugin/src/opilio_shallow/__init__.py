"""An example plug-in for Opilio."""
