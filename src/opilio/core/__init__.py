"""Records, protocols, events, errors, settings and the clock. Imports no other package of Opilio."""
