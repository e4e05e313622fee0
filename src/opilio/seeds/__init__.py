"""Where to begin: search engines, lists and our own collections, asked politely and merged by their votes."""
