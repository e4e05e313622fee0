"""Training sets as CSV: what is written is read back, and errors are reported in one line (S1-13, S1-25)."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.errors import UsageError
from opilio.methods.attributes.features import HEADER, TrainingRow, read_rows, write_rows

HEAD = ",".join(HEADER)
GOOD = "http://a.example/dna,0.5,0.25,0,1,parent,yes"
part = st.floats(0.0, 1.0).map(lambda x: float(format(x, ".6g")))
flags = st.tuples(*[st.booleans()] * 4)
rows = st.builds(
    TrainingRow,
    url=st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), min_size=1)
    .map(lambda t: f"http://a.example/{t}".strip()),
    group=st.just("a.example"),
    values=st.tuples(part, part, part, part),
    missing=flags,
    relevant=st.booleans(),
)  # fmt: skip


def written(given_rows: list[TrainingRow]) -> str:
    out = io.StringIO(newline="")
    write_rows(given_rows, out)
    return out.getvalue()


def test_row_is_url_four_attributes_and_label_s1_13_s1_25() -> None:
    row = TrainingRow(
        url="http://a.example/dna",
        group="a.example",
        values=(0.5, 0.25, 0.0, 1.0),
        missing=(False, False, True, False),
        relevant=True,
    )
    assert written([row]).splitlines() == [HEAD, GOOD]


@given(st.lists(rows, min_size=1, max_size=5))
def test_what_is_written_is_read_back(given_rows: list[TrainingRow]) -> None:
    back = read_rows(io.StringIO(written(given_rows), newline=""), "rows.csv")
    assert [(r.url, r.values, r.missing, r.relevant) for r in back] == [
        (r.url, r.values, r.missing, r.relevant) for r in given_rows
    ]


def test_file_of_another_program_is_read() -> None:
    """Other order, capitals, a byte order mark, 1 and 0, no column of what is missing."""
    text = (
        "\ufeffRelevant,URL,anchor_relevancy,url_relevancy,parent_relevancy,around_relevancy,note\n1,x,.5,0,0,1e-1,?\n"
    )
    (row,) = read_rows(io.StringIO(text), "rows.csv")
    assert row.relevant and row.values == (0.0, 0.5, 0.0, 0.1) and row.group == "x" and not any(row.missing)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", "rows.csv: is empty; its first line must be url,"),
        (HEAD, "rows.csv: has no rows"),
        (HEAD.replace("anchor_relevancy,", "") + "\n", "has no column 'anchor_relevancy'"),
        (f"{HEAD}\n{GOOD.replace('0.25', 'half')}", "line 2: anchor_relevancy is 'half'; it must be a number from 0"),
        (f"{HEAD}\n{GOOD.replace('0.25', 'nan')}", "line 2: anchor_relevancy is nan; it must be a number from 0 to 1"),
        (f"{HEAD}\n{GOOD.replace('0.25', '1.5')}", "line 2: anchor_relevancy is 1.5"),
        (f"{HEAD}\n{GOOD}\n{GOOD.replace('yes', 'maybe')}", "line 3: relevant is 'maybe'; it must be yes or no"),
        (f"{HEAD}\n{GOOD.replace('parent', 'mother')}", "line 2: missing names 'mother'; known: url anchor"),
        (f"{HEAD}\nhttp://a.example/,0.5", "line 2: the number of fields differs"),
        (f"{HEAD}\n{GOOD},more,and more", "line 2: the number of fields differs"),
        (f"{HEAD}\n,0,0,0,0,,no", "line 2: the url is empty"),
        (f'{HEAD}\n"http://a.example/', "not a CSV file"),
    ],
)
def test_bad_rows_are_reported_in_one_line(text: str, result: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_rows(io.StringIO(text), "rows.csv")
    assert result in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 2


@given(st.text(max_size=200))
def test_any_text_is_rows_or_a_usage_error(text: str) -> None:
    try:
        assert read_rows(io.StringIO(f"{HEAD}\n{text}"), "rows.csv")
    except UsageError as error:
        assert str(error).startswith("rows.csv")
