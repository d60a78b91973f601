"""The best of a pool: both sources against a plain sort."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.ranking import blocks, sources, vectors
from rankledger.ranking.counting import Ragged
from rankledger.ranking.sources import Embeddings, Table
from rankledger.ranking.vectors import Vectors, similarity


def plain(scores: dict[int, float], pool: list[int], out: list[int], k: int) -> list[int]:
    """The k best of a pool by score, then by id, both descending."""
    return sorted((c for c in pool if c in scores and c not in out), key=lambda c: (scores[c], c), reverse=True)[:k]


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_table(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 12))
    ids = st.lists(st.integers(0, n - 1), unique=True).map(sorted)
    score = st.sampled_from([-np.inf, -1.5, -0.0, 0.0, 0.25, 1e-40, np.inf])
    given_scores = [{c: data.draw(score) for c in data.draw(ids)} for _ in range(3)]
    pool, k = data.draw(ids), data.draw(st.integers(1, n + 1))
    outs = [data.draw(ids) for _ in range(3)]
    owner = [q for q, mine in enumerate(given_scores) for _ in mine]
    lists = Ragged.group(owner, [c for mine in given_scores for c in mine], 3)
    values = np.array([mine[c] for mine in given_scores for c in sorted(mine)], np.float32)
    excluded = Ragged.group([q for q, out in enumerate(outs) for _ in out], [c for out in outs for c in out], 3)
    queries = np.array([2, 0, 1])
    found = Table(lists, values, n, np.nan).top(np.array(pool, np.int64), queries, excluded, k)
    wanted = [plain(given_scores[q], pool, outs[q], k) for q in queries]
    assert [best.tolist() for best in found] == wanted


def embeddings(left: np.ndarray, right: np.ndarray, cosine: bool) -> Embeddings:
    rows = np.arange(len(left)), np.arange(len(right))
    return Embeddings(Vectors(left, cosine), Vectors(right, cosine), *rows)


@pytest.mark.parametrize("cosine", [True, False])
@pytest.mark.parametrize("block", [(2, 3, 2), (256, 16384, 512)])
@pytest.mark.parametrize("seed", range(4))
def test_embeddings_with_many_equal_scores(
    monkeypatch: pytest.MonkeyPatch, cosine: bool, block: tuple[int, int, int], seed: int
) -> None:
    """Components of a few values: most scores tie, exactly or up to the last bit of float32."""
    monkeypatch.setattr(sources, "TOP_ROWS", block[0])
    monkeypatch.setattr(vectors, "BLOCK_VECTORS", block[1])
    monkeypatch.setattr(blocks, "DEPTH", block[2])
    random = np.random.default_rng(seed)
    left, right = (random.choice(np.float32([-1, 0.1, 0.3, 1]), (n, 5)) for n in (7, 60))
    source = embeddings(left, right, cosine)
    pool = np.sort(random.choice(60, 45, replace=False))
    outs = [sorted(random.choice(60, 4, replace=False)) for _ in left]
    excluded = Ragged.group(np.repeat(np.arange(7), 4), np.concatenate(outs), 7)
    for k in (1, 10, 45):
        found = list(source.top(pool, np.arange(7), excluded, k))
        for query, best in enumerate(found):
            scores = similarity(source.left, source.right.hold(np.arange(60))[0], np.full(60, query), np.arange(60))
            assert best.tolist() == plain(dict(enumerate(scores)), pool.tolist(), outs[query], k)


def test_scores_that_only_float64_tells_apart_are_rounded_as_defined() -> None:
    """Sums of 200 products against exact fractions, rounded once to float32."""
    random = np.random.default_rng(7)
    left, base = random.standard_normal((1, 200)).astype(np.float32), random.standard_normal(200).astype(np.float32)
    right = np.repeat(base[None], 300, axis=0)
    places = random.integers(0, 200, 300)
    right[np.arange(300), places] *= np.float32(1 + 2.0**-22) ** random.integers(0, 3, 300).astype(np.float32)
    exact = [sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(left[0], row, strict=True)) for row in right]
    rounded = {i: float(np.float32(float(value))) for i, value in enumerate(exact)}
    assert 1 < len(set(rounded.values())) < 300
    none = Ragged.group([], [], 1)
    found = next(embeddings(left, right, False).top(np.arange(300), np.array([0]), none, 50))
    assert found.tolist() == plain(rounded, list(range(300)), [], 50)


@pytest.mark.parametrize(("sign", "wanted"), [(1, [3, 2, 1, 4]), (-1, [0, 4, 3, 2])])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_scores_beyond_float32_tie_at_infinity(sign: int, wanted: list[int], k: int) -> None:
    left = np.full((1, 1), sign * 1e30)
    right = np.array([[1e5], [1e10], [5e9], [1e20], [2e5]])
    found = next(embeddings(left, right, False).top(np.arange(5), np.array([0]), Ragged.group([], [], 1), k))
    assert found.tolist() == wanted[:k]
