"""`python -m opilio`: the same as the command `opilio`."""

from opilio.cli.main import main

if __name__ == "__main__":
    main()
