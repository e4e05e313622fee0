"""Following redirects for small jobs (robots.txt, example pages of a topic). A crawl queues them instead."""

from msgspec.structs import replace

from opilio.model.protocols import Fetcher
from opilio.model.records import Failure, Fetched


async def follow(fetcher: Fetcher, url: str, hops: int = 5) -> Fetched:
    """The answer at the end of at most `hops` redirects; a failure `redirect-loop` where there is no end."""
    been = {url}
    found = await fetcher.fetch(url)
    while found.location and found.failure is None:
        if len(been) > hops or found.location in been:
            return replace(found, failure=Failure("redirect-loop", f"gave up at {found.location}"[:200]))
        been.add(found.location)
        found = await fetcher.fetch(found.location)
    return found
