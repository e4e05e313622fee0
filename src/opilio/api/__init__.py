"""The public Python API: thin functions over the parts that the command line and the web pages use, too."""
