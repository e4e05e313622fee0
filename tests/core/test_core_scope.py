import pytest

from opilio.core.errors import ConfigError
from opilio.core.scope import ScopeSettings, UrlScope, page_refusal
from opilio.core.settings import validate_tree

ALLOWED = ""
NO_RULE = "out of scope: no rule of --site or --allow (scope.allow) matches"


@pytest.mark.parametrize(
    ("allow", "deny", "url", "reason"),
    [
        ([], [], "http://a.example/", ALLOWED),
        (["example.org"], [], "https://example.org/x", ALLOWED),
        (["example.org"], [], "https://docs.example.org:8080/x", ALLOWED),
        (["example.org"], [], "https://notexample.org/", NO_RULE),
        (["Example.ORG"], [], "https://example.org/", ALLOWED),
        (["=www.example.org"], [], "https://www.example.org/", ALLOWED),
        (["=www.example.org"], [], "https://a.www.example.org/", NO_RULE),
        (["example.org:8080"], [], "http://example.org:8080/", ALLOWED),
        (["example.org:8080"], [], "http://example.org/", NO_RULE),
        (["bücher.example"], [], "https://www.xn--bcher-kva.example/", ALLOWED),
        (["bbc.co.uk"], [], "https://gov.co.uk/", NO_RULE),
        (["example.org/docs/*"], [], "https://example.org/docs/a/b?c=1", ALLOWED),
        (["example.org/docs/*"], [], "https://example.org/blog/", NO_RULE),
        (["/wiki/*"], [], "https://any.example/wiki/Wren", ALLOWED),
        (["/wiki/*"], ["*?action=*"], "", "invalid"),
        (["/wiki/*"], ["/*action=*"], "https://a.example/wiki/Wren?action=edit", "out of scope: scope.deny /*action=*"),
        (["example.org"], ["ads.example.org"], "https://ads.example.org/", "out of scope: scope.deny ads.example.org"),
        ([], ["/a.b"], "https://a.example/axb", ALLOWED),
    ],
)
def test_scope_of_urls(allow: list[str], deny: list[str], url: str, reason: str) -> None:
    settings = ScopeSettings(allow=allow, deny=deny)
    if reason == "invalid":
        with pytest.raises(ConfigError, match="not a valid rule"):
            UrlScope(settings)
    else:
        assert UrlScope(settings).refusal_reason(url) == reason


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        (ScopeSettings(languages=["en", "de"]), ""),
        (ScopeSettings(languages=["en"]), "de is not in scope.languages"),
        (ScopeSettings(deny_languages=["DE"]), "de is denied"),
        (ScopeSettings(types=["text/plain"]), "text/html is not in scope.types"),
        (ScopeSettings(deny_types=["text/html"]), "text/html is denied"),
    ],
)
def test_scope_of_pages(settings: ScopeSettings, refused: str) -> None:
    assert page_refusal(settings, "text/html", "de") == refused


def test_page_of_unknown_language_is_allowed() -> None:
    assert page_refusal(ScopeSettings(languages=["en"]), "text/html", "") == ""


# An empty rule would match every URL: with `--deny ""` nothing would be crawled.
@pytest.mark.parametrize("rule", ["https://a.example/", "", " ", "/"])
def test_wrong_rule_is_reported_with_its_source(rule: str) -> None:
    with pytest.raises(ConfigError, match=rf"scope\.allow '{rule}': not a valid rule"):
        validate_tree({"scope": {"allow": [rule]}}, "file.toml")
