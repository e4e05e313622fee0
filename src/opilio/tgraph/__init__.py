"""The T-Graph of S2: exemplary links and how far each is from a target. Pure: no I/O, no clock, no chance."""
