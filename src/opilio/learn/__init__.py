"""What learns: classifiers, the online link model, the committee. Knows no page, no socket, no file."""
