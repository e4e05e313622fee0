"""Methods of the papers S1, S2 and S3, and rivals of ours. Each package registers itself as a plug-in."""
