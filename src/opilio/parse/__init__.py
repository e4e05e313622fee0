"""Bytes to pages: encodings, the tree, text in blocks, links in their context. Pure: no I/O, no clock."""
