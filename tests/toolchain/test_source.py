"""Comments find the instructions that they were written for."""

import textwrap

import pytest

from toolchain.source import ROOT, Comments, read_source, short_path

TEXT = textwrap.dedent(
    '''\
    """Doc."""

    # Before the function.
    def outer(a):
        """Doc, not a comment."""
        # First group.
        # Two lines of it.
        a.one()  # beside one
        a.two()

        # Above the loop.
        for n in range(2):
            a.three()  # noqa: B018
            # Inside the loop.
            a.four("# no comment")
        a.five(
            1,  # an argument
        )

        def inner(a):
            # Of the inner function.
            a.six()

        # After the inner one.
        inner(a)
        a.seven()  # beside seven  # noqa: E501
    '''
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "generator.py"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def line(text):
    return next(n for n, row in enumerate(TEXT.splitlines(), 1) if text in row)


def take(file, *texts):
    comments = Comments()
    return [comments.take(file, line(text)) for text in texts]


def test_groups_and_trailing_comments(file):
    assert take(file, "a.one", "a.two") == [
        (["First group.", "Two lines of it."], "beside one"),
        ([], ""),
    ]


def test_a_line_that_emits_twice_comments_once(file):
    assert take(file, "a.one", "a.one", "a.two")[1] == ([], "")


def test_statements_that_emit_nothing_hand_their_comment_on(file):
    got = take(file, "a.two", "a.three", "a.four")
    assert got[1] == (["Above the loop."], "")
    assert got[2] == (["Inside the loop."], "")


def test_a_second_pass_repeats_what_is_directly_above(file):
    got = take(file, "a.three", "a.four", "a.three", "a.four", "a.five")
    assert [above for above, _ in got[2:]] == [[], ["Inside the loop."], []]


def test_an_inner_function_keeps_its_comments_to_itself(file):
    got = take(file, "a.five", "a.six", "a.seven")
    assert got[1] == (["Of the inner function."], "")
    assert got[2] == (["After the inner one."], "beside seven")


def test_hashes_in_strings_are_no_comments(file):
    assert line("a.four") not in read_source(file).beside


def test_a_file_that_is_no_python_has_no_comments(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("def (:\n# lost\n", encoding="utf-8")
    assert read_source(str(path)).above == {}
    assert read_source(str(tmp_path / "missing.py")).above == {}


def test_paths_start_at_the_project():
    assert short_path(str(ROOT / "firmware" / "limits.py")) == "firmware/limits.py"
    assert short_path("/somewhere/else/generator.py") == "generator.py"
