"""The dense features of a queued link: what they are called, where each stands, what it weighs at first."""

# Dense features with the weights they begin with: the papers' scores, before anything is learnt (cold start).
FEATURES = {
    "bias": -2.2,
    "parent": 2.0,  # γ of the best page that links to it
    "anchor": 2.5,  # β
    "around": 1.4,  # ω
    "url": 1.6,  # α
    "same host": 0.0,
    "textless": -0.3,
    "path depth": -0.3,
    "query": -0.2,
    "found": 0.5,  # how many pages link to it
    "relevant parents": 0.5,
    "tunnel": -0.3,
    "tag path": 1.5,  # success of links at the same place of other pages
    "directory": 1.5,
    "host": 1.0,
    "list": 2.5,  # success of the other links of the same list, wherever it was found
    "page": 1.0,  # success of the other links of the same page
    "galaxy": 1.0,  # how near the words at the link are to the topic's Dewey classes; 0 where nobody looks
    "T-Graph": 0.5,  # how near to a target the T-Graph holds it (S2-32); 0 where there is none
    "similarity": 0.5,  # to the node it matches (OSM)
    "layer": 0.5,  # how near to a target a context graph holds its page
}
NAMES = tuple(FEATURES)
AT = {name: place for place, name in enumerate(NAMES)}
# Features that come with the link itself; of several contexts the best counts.
STATIC = {
    "parent": "parent",
    "anchor": "anchor",
    "around": "around",
    "url": "url",
    "same host": "same_host",
    "textless": "textless",
    "path depth": "path_depth",
    "query": "query",
    "galaxy": "galaxy",
    "T-Graph": "tgraph",
    "similarity": "osm",
    "layer": "layer",
}
