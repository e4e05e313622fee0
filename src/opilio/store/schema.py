"""The tables of `crawl.db` that the store itself owns. The frontier and the seen test bring theirs."""

APPLICATION_ID = 0x6F70696C  # "opil": says whose file this is
SCHEMA_VERSION = 1

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

-- The current version of every page that was fetched and parsed; key is the 64-bit key of its URL.
CREATE TABLE page (
  key INTEGER PRIMARY KEY, seq INTEGER NOT NULL, url TEXT NOT NULL, host TEXT NOT NULL,
  status INTEGER NOT NULL, content_type TEXT NOT NULL, encoding TEXT NOT NULL, language TEXT NOT NULL,
  title TEXT NOT NULL, description TEXT NOT NULL, keywords TEXT NOT NULL, canonical TEXT NOT NULL,
  genre TEXT NOT NULL, words INTEGER NOT NULL,
  score REAL NOT NULL, relevant INTEGER NOT NULL, reasons BLOB NOT NULL,
  fingerprint INTEGER NOT NULL, simhash INTEGER NOT NULL, duplicate_of INTEGER NOT NULL,
  near_duplicate INTEGER NOT NULL,
  noindex INTEGER NOT NULL, depth INTEGER NOT NULL, parent INTEGER NOT NULL,
  etag TEXT NOT NULL, last_modified TEXT NOT NULL, fetched_at REAL NOT NULL,
  warc INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL
);
CREATE INDEX page_by_seq ON page (seq);
CREATE INDEX page_relevant ON page (relevant, score) WHERE duplicate_of = 0;

-- Every answer of the web and every typed failure, in the order they were committed (S2-10, S2-16).
CREATE TABLE answer (
  seq INTEGER PRIMARY KEY, key INTEGER NOT NULL, at REAL NOT NULL, status INTEGER NOT NULL,
  failure TEXT NOT NULL, detail TEXT NOT NULL, elapsed_s REAL NOT NULL, size_bytes INTEGER NOT NULL,
  address TEXT NOT NULL, location TEXT NOT NULL
);
CREATE INDEX answer_by_key ON answer (key);

-- The ranked links of a page as one blob of columns (LinkColumns): scores and their parts are kept (S2-16).
CREATE TABLE links (parent INTEGER PRIMARY KEY, columns BLOB NOT NULL);

CREATE TABLE robots (origin TEXT PRIMARY KEY, expires_at REAL NOT NULL, rules BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE seed (key INTEGER PRIMARY KEY, url TEXT NOT NULL, priority INTEGER NOT NULL, sources TEXT NOT NULL);
CREATE TABLE snapshot (name TEXT NOT NULL, version INTEGER NOT NULL, at REAL NOT NULL, state BLOB NOT NULL,
  PRIMARY KEY (name, version)) WITHOUT ROWID;
CREATE TABLE event (id INTEGER PRIMARY KEY, at REAL NOT NULL, kind TEXT NOT NULL, data BLOB NOT NULL);
"""

# Tables that came later: a collection that was made without them gets them when it is next written to.
LATER = """
-- What learners were taught since their last snapshot: with it, a killed crawl goes on with the same models.
CREATE TABLE IF NOT EXISTS lesson (id INTEGER PRIMARY KEY, name TEXT NOT NULL, data BLOB NOT NULL);

-- What a person said of pages, with the words they are known by; of two words about one page the last counts.
CREATE TABLE IF NOT EXISTS label (id INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL,
  relevant INTEGER NOT NULL, at REAL NOT NULL, sample BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS label_by_key ON label (key);
"""
