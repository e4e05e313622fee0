from opilio.text.vocabulary import SurfaceForms


def test_counting_turns_into_sampling_when_enough_was_seen() -> None:
    surfaces = SurfaceForms(full_count_limit=3)
    for form in ("bird", "birds"):
        surfaces.add(7, form)
    surfaces.observe(["bird", "bird", "bird"])
    surfaces.observe(["birds"] * 122)
    assert surfaces.most_common_form(7) == "bird"  # 3 against a sample of 2
    surfaces.observe(["birds"] * 122)
    assert surfaces.most_common_form(7) == "birds"


def test_forgotten_words_are_gone_and_stop_words_have_no_form() -> None:
    surfaces = SurfaceForms()
    for form in ("wren", "wrens"):
        surfaces.add(5, form)
    surfaces.observe(["wrens", "wrens", "wren", "the"])
    surfaces.retain({"wren": 5, "the": 0})
    assert (surfaces.most_common_form(5), surfaces.most_common_form(0)) == ("wren", "")
