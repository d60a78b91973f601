"""The strict reader of raw JSON, and choices by hash."""

import hashlib

import pytest

from rankledger.benchmarks import made
from rankledger.benchmarks.reading import Number, parse, read_raw, refuse, repeated
from rankledger.tables import InputError

SHAPE = {"id": int, "weight": float, "names": [str], "inner": {"any": {str: (int, str)}}}
GOOD = '{"id": 1, "weight": 2, "names": ["a"], "inner": {"any": {"x": 1, "y": "1"}}, "more": null}'


def line(text, shape, tmp_path, **options):
    """The one line with which a text is refused."""
    with pytest.raises(InputError) as caught:
        parse(text.encode(), shape, tmp_path / "f.json", **options)
    assert "\n" not in str(caught.value)
    assert "f.json" in str(caught.value)
    return str(caught.value)


def test_a_good_value_comes_as_it_is(tmp_path):
    value = parse(GOOD.encode(), SHAPE, tmp_path)
    assert value["inner"] == {"any": {"x": 1, "y": "1"}}
    assert value["more"] is None
    (tmp_path / "f.json").write_bytes(b"\xef\xbb\xbf[1]")
    assert read_raw(tmp_path / "f.json", [int]) == [1]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"id": 1', '"id": true', "'id'"),
        ('"id": 1', '"id": 1.0', "'id'"),
        ('"id": 1, ', "", "'id'"),
        ('"weight": 2', '"weight": 1e999', "'weight'"),
        ('"weight": 2', '"weight": "2"', "'weight'"),
        ('"weight": 2', f'"weight": {"9" * 400}', "'weight'"),
        ('["a"]', '["a", null]', "'names'"),
        ('["a"]', '{"a": "a"}', "'names'"),
        ('["a"]', r'["\udc00"]', "'names'"),
        ('"x": 1', '"x": [1]', "'inner.any.x'"),
        ('"any"', '"other"', "'inner.any'"),
        ('"x": 1', r'"\ud800": 1', "'inner.any.\\ud800'"),
    ],
)
def test_the_place_of_a_misfit_is_named(tmp_path, old, new, place):
    assert old in GOOD
    text = GOOD.replace(old, new)
    assert f"{place} is missing or of a wrong type" in line(text, SHAPE, tmp_path)
    records = f"[{GOOD}, {text}, {GOOD}, {text}]"
    assert f"{place} is missing or of a wrong type in 2 records (1, 3)" in line(records, [SHAPE], tmp_path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("<html>log in</html>", "not JSON"),
        ('{"id": NaN}', "not JSON (NaN is no number)"),
        ('{"id": -Infinity}', "not JSON (-Infinity is no number)"),
        ('[{"id": 1, "id": 1}]', "not JSON (the key 'id' twice in one object)"),
        ("[" * 200_000, "not JSON"),
        ("9" * 5000, "not JSON"),
        ("[1, 2", "not JSON"),
    ],
)
def test_what_is_no_json(tmp_path, text, says):
    assert says in line(text, [SHAPE], tmp_path)


def test_lists(tmp_path):
    assert "an empty list" in line("[]", [int], tmp_path)
    assert "its content is missing or of a wrong type" in line("{}", [int], tmp_path)
    assert "the record is missing or of a wrong type in 1 record (1)" in line('[1, "2"]', [int], tmp_path)


def test_numbers_verbatim(tmp_path):
    assert parse(b'[1, 8.0, 1e1, -0, "7"]', [(Number, str)], tmp_path, verbatim=True) == [
        "1",
        "8.0",
        "1e1",
        "-0",
        "7",
    ]
    assert "(1)" in line('["a", 8.0]', [str], tmp_path, verbatim=True)
    assert "(0)" in line('["8.0", 8.0]', [Number], tmp_path, verbatim=True)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"f\.json: no such file"):
        read_raw(tmp_path / "f.json", [int])


def test_refuse(tmp_path):
    refuse(tmp_path, [], "nothing")
    with pytest.raises(InputError, match=r"bad in 5 records \(0, 1, 2, …\)"):
        refuse(tmp_path, range(5), "bad")
    assert repeated([]) == []
    assert repeated("abcab") == [3, 4]


def test_choices_by_hash():
    """They come from SHA-256 alone, so no version of anything changes a sample."""
    value = int.from_bytes(hashlib.sha256(b"a/1").digest()[:8], "big")
    assert made.number("a", 1) == value
    assert made.choice("xyz", "a", 1) == "xyz"[value % 3]
    order = sorted(range(9), key=lambda i: hashlib.sha256(f"k/{i}".encode()).digest()[:8])
    assert made.sample(range(9), 4, "k") == order[:4]
    assert made.change("a") == made.change("a") != made.change("b")
