"""S2: the T-Graph and its rival, the context graph."""
