"""The dense features of a queued link: what they are called, where each stands, what it weighs at first."""

# What comes with the link itself, in the order of `linkfeatures.DENSE`; of several contexts the best counts.
_OF_THE_LINK = {
    "url": 1.6,  # α
    "anchor": 2.5,  # β
    "parent": 2.0,  # γ of the best page that links to it
    "around": 1.4,  # ω
    "same host": 0.0,
    "textless": -0.3,
    "path depth": -0.3,
    "query": -0.2,
    "galaxy": 1.0,  # how near the words at the link are to the topic's Dewey classes; 0 where nobody looks
    "T-Graph": 0.5,  # how near to a target the T-Graph holds it (S2-32); 0 where there is none
    "similarity": 0.5,  # to the node it matches (OSM)
    "layer": 0.5,  # how near to a target a context graph holds its page
    "S3": 0.0,  # the topic score of S3-17 without the parents; 0 where nobody looks
    "genre": 0.5,  # how much of a wanted genre is at the link (S3-23); 0 where none is wanted
    "S1": 1.0,  # the probability by a learner that was trained before; 0 where there is none
}
# What the crawl knows of it, and learns.
_OF_THE_CRAWL = {
    "words at it": 0.5,  # what they are worth on pages: of its URL and anchor
    "words around": 0.0,  # around it and in the heading above
    "found": 0.5,  # how many pages link to it
    "relevant parents": 0.5,
    "tunnel": -0.3,
    "tag path": 1.5,  # success of links at the same place of other pages
    "directory": 1.5,
    "host": 1.0,
    "list": 2.5,  # success of the other links of the same list, wherever it was found
    "page": 1.0,  # success of the other links of the same page
}
# With the weights they begin with: the papers' scores, before anything is learnt (cold start).
FEATURES = {"bias": -2.2, **_OF_THE_LINK, **_OF_THE_CRAWL}
# How many examples' worth of evidence it takes to move a weight; 1 where nothing is said. What a graph of few pages
# says is much alike for all links: followed as freely as the rest it brought nothing, or harm (docs/lab/s2.md).
FIRM = {"T-Graph": 10.0, "similarity": 10.0, "layer": 10.0}
# What helps on one web and misleads on another is heard once it has foretold better (`ontrial`).
ON_TRIAL = ("galaxy", "T-Graph", "similarity", "layer")
NAMES = tuple(FEATURES)
AT = {name: place for place, name in enumerate(NAMES)}
STATIC = slice(1, 1 + len(_OF_THE_LINK))
