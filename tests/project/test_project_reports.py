"""What users reported or asked for, and the tests that check it: every test named here exists and is run."""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

# Defects that users found, in the order in which they reported them.
REPORTED = {
    "Ctrl-C while workers start hangs": [
        "engine/test_engine_worker_exit.py::test_interrupted_start_of_a_worker_leaves_no_process",
        "engine/test_engine_start_interrupt.py::test_signal_at_a_step_of_start_up_ends_the_crawl_cleanly",
        "cli/test_cli_start.py::test_interrupt_during_the_imports_ends_with_130",
    ],
    "listing pages are taken for copies, and their links are lost": [
        "engine/test_engine_copies.py::test_every_item_of_a_gallery_is_found_when_its_pages_have_equal_words",
        "engine/test_engine_copies.py::test_listing_pages_that_differ_in_a_digit_are_no_copies",
    ],
    "exit code 0 of a crawl without a page": [
        "cli/test_cli_bad_input.py::test_closed_port_ends_with_its_own_exit_code_and_advice_also_on_the_errors_page",
        "web/test_web_sums.py::test_page_of_a_dead_seed_names_the_error",
    ],
    "Resume does nothing on the collection of the demo": [
        "web/test_web_api.py::test_resume_needs_limits_that_are_not_reached",
        "web/test_web_live.py::test_crawl_that_has_ended_goes_on_from_the_browser",
        "project/test_project_demo.py::test_collection_of_the_demo_is_resumed_in_the_web_of_the_demo",
    ],
    "noindex pages in exports, cookie banners in texts, code on one line": [
        "manage/test_manage_markdown.py::test_pages_that_ask_not_to_be_indexed_are_left_out",
        "engine/test_engine_live_web.py::test_exported_text_has_no_cookie_banner",
        "manage/test_manage_markdown.py::test_lines_have_content_and_metadata",
        "manage/test_manage_markdown.py::test_code_is_never_split",
    ],
    "the badge of a hit does not follow its label": [
        "web/test_web_browser.py::test_badge_of_a_hit_follows_its_label",
    ],
    "counts of facets break over two lines": ["web/test_web_browser.py::test_counts_of_facets_stay_on_one_line"],
    "figures of the live page contradict each other": [
        "web/test_web_live.py::test_header_and_tables_of_a_crawl_agree",
    ],
    "counts of facets do not sum to the total": [
        "web/test_web_annotations.py::test_facets_over_collections_count_each_page_once",
    ],
    "a PNG is offered that cannot be drawn": [
        "web/test_web_live.py::test_picture_is_offered_only_if_it_can_be_drawn",
        "web/test_web_api.py::test_curve_is_a_png_or_says_what_to_install",
    ],
    "the estimate of relevant pages in the queue is far too high": [
        "engine/test_engine_learning.py::test_expectation_falls_towards_nothing_when_the_relevant_pages_are_found",
        "engine/test_engine_learning.py::test_estimate_is_at_most_the_queue",
        "engine/test_engine_learning.py::test_estimate_is_near_what_the_rest_of_the_crawl_finds",
    ],
}
# What users of search and of the pages asked for.
WANTED = {
    "questions and loose wording find the page": [
        "search/test_search_questions.py::test_question_finds_its_page_first",
        "search/test_search_questions.py::test_misspelled_words_are_searched_corrected_and_suggested",
        "search/test_search_questions.py::test_page_found_by_its_meaning_is_marked",
    ],
    "passages with highlights and citations, as JSON too": [
        "search/test_search_passages.py::test_best_passage_answers_the_question",
        "search/test_search_passages.py::test_command_prints_passages_and_citations",
    ],
    "MCP server, over stdio and HTTP": [
        "web/test_web_mcp.py::test_tools_and_resources_over_stdio",
        "web/test_web_mcp.py::test_tools_and_resources_over_http_with_a_token",
        "web/test_web_mcp.py::test_crawl_is_started_where_it_is_allowed",
    ],
    "live page: stream of pages, chart with values and marks, resume with limits": [
        "web/test_web_live.py::test_pages_just_fetched_are_listed_with_verdict_and_reason",
        "web/test_web_live.py::test_chart_shows_values_under_the_pointer_and_marks_labels",
        "web/test_web_live.py::test_crawl_that_has_ended_goes_on_from_the_browser",
    ],
    "hits: title opens the page, folded hosts, chips, message that does not move the page": [
        "web/test_web_browser.py::test_result_opens_the_page_and_filters_apply_at_once",
        "web/test_web_browser.py::test_further_results_of_a_host_are_folded",
        "web/test_web_browser.py::test_user_searches_filters_opens_and_reads_why",
        "web/test_web_browser.py::test_message_of_a_label_does_not_move_the_page",
    ],
    "numbers of a verdict add up": ["learn/test_learn_models.py::test_explanation_adds_up_to_the_score"],
    "stored copy: main text, sandboxed original, versions and differences": [
        "web/test_web_copy.py::test_copy_shows_main_text_of_each_version",
        "web/test_web_copy.py::test_original_is_shown_in_a_sandbox",
        "web/test_web_copy.py::test_changes_between_versions_are_marked",
    ],
    "new crawl as a guided form, from a sentence to an export": [
        "web/test_web_newcomer.py::test_newcomer_gets_from_a_sentence_to_an_exported_collection",
        "web/test_web_live.py::test_engines_are_asked_where_no_seeds_are_given",
    ],
    "queue of the least certain pages": [
        "web/test_web_browser.py::test_least_certain_pages_are_labelled_with_one_key_each",
    ],
    "cards: sort, rename, archive, delete": [
        "web/test_web_forms.py::test_collections_are_sorted_by_activity_pages_size_or_name",
        "web/test_web_manage.py::test_user_renames_archives_and_deletes_a_collection",
    ],
    "runs side by side": ["web/test_web_manage.py::test_runs_show_settings_that_differ_and_the_best_figures"],
    "errors and events in sentences, with filter and retry": [
        "web/test_web_log.py::test_errors_are_grouped_by_host_and_cause",
        "web/test_web_log.py::test_user_filters_by_a_click_and_retries",
        "web/test_web_log.py::test_every_event_is_a_sentence",
    ],
    "graph that zooms, names hosts and opens them": [
        "web/test_web_log.py::test_graph_zooms_and_labels_never_overlap",
        "web/test_web_log.py::test_graph_names_the_host_under_the_pointer_and_opens_it",
    ],
    "saved searches with feeds, notes, tags, lists, citations, OpenSearch": [
        "web/test_web_annotations.py::test_curator_tags_notes_and_exports_a_list",
        "web/test_web_annotations.py::test_saved_search_counts_and_feeds_new_pages",
        "web/test_web_api.py::test_search_is_a_feed_and_a_search_engine_for_browsers",
        "manage/test_manage_citations.py::test_bibtex_has_an_entry_with_its_own_key_per_page",
    ],
    "design: one row on a phone, both themes, no violation of accessibility, empty states": [
        "web/test_web_browser.py::test_header_of_a_phone_is_one_row",
        "web/test_web_browser.py::test_narrow_phone_scrolls_only_downwards",
        "web/test_web_browser.py::test_theme_is_chosen_and_kept",
        "web/test_web_browser.py::test_axe_finds_no_violation",
        "web/test_web_forms.py::test_page_without_collections_offers_the_demo",
    ],
    "Python API and documentation as a site": [
        "api/test_api_collection.py::test_search_is_that_of_the_command",
        "docs/test_docs_site.py::test_site_has_every_page_and_tutorial",
        "docs/test_docs_site.py::test_site_loads_nothing_from_other_servers",
    ],
}


@cache
def run_tests(file: str) -> set[str]:
    """The tests of a file that have no mark `skip` or `xfail`."""
    return {
        node.name
        for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(word in ast.unparse(mark) for mark in node.decorator_list for word in (".skip(", ".xfail"))
    }


@pytest.mark.parametrize("report", [*REPORTED, *WANTED])
def test_every_report_has_its_tests(report: str) -> None:
    named = (REPORTED | WANTED)[report]
    assert named
    assert [one for one in named if one.partition("::")[2] not in run_tests(one.partition("::")[0])] == []
