"""The addresses of all pages of the web interface."""

from opilio.web.pages import PAGES

SEED = "http%3A%2F%2Fh0.example%2F0.html"
NEEDS = {"/c/{name}/page": f"url={SEED}", "/c/{name}/host": "host=h0.example", "/c/{name}/copy": f"url={SEED}"}
NEEDS |= {"/c/{name}/list": "list=cite"}


def addresses(suffix: str = "") -> list[str]:
    """Every page that can be looked at, with what it needs."""
    found = []
    for page in PAGES:
        if suffix == ".csv" and not page.has_table:
            continue
        path = page.path.replace("{name}", "birds")
        path = f"{path if path != '/' or not suffix else '/index'}{suffix}"
        found.append(f"{path}?{NEEDS[page.path]}" if page.path in NEEDS else path)
    return found
