"""Has this text been seen before? Fingerprints and the sets that hold them."""
