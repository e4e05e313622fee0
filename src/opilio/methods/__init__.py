"""Methods of the papers S1, S2 and S3. Each package registers itself as a plug-in."""
