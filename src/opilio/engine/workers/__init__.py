"""The pool of worker processes that analyze pages, and what runs inside them."""
