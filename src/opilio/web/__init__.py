"""The web interface of `opilio serve`."""
