"""Topics as Dewey numbers (S2-18 to S2-26): our lexicon, the dots of a text, its galaxy. Pure, but reads a lexicon."""
