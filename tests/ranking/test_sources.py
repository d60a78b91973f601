"""Counts from embeddings against a slow reference: Python's own floats, every pair, no matrix product."""

import math
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from rankledger.ranking import blocks, vectors
from rankledger.ranking.counting import LISTED, Judged, Ragged, Trials, stand, stand_both
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.vectors import Vectors, similarity, sum_rows

Array = np.ndarray
N, M = 14, 40  # queries and candidates of the random cases


def halves(terms: list[float]) -> float:
    """The sum in the defined order: the second half is added to the first until one term is left."""
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        terms = [t + terms[half + i] if half + i < len(terms) else t for i, t in enumerate(terms[:half])]
    return terms[0]


def slow_vectors(stored: Array, cosine: bool) -> list[list[float]]:
    rows = [[float(x) for x in row] for row in stored]
    if not cosine:
        return rows
    norms = [math.sqrt(halves([x * x for x in row])) for row in rows]
    return [[x / norm for x in row] for row, norm in zip(rows, norms, strict=True)]


def slow_similarity(a: list[float], b: list[float]) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(halves([x * y for x, y in zip(a, b, strict=True)])))


class Case:
    """Embeddings of two sides; every query is ranked against all candidates, some excluded."""

    def __init__(self, left: Array, right: Array, cosine: bool, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.left, self.right, self.cosine = left, right, cosine
        n, m = len(left), len(right)
        self.gold = [sorted({i % m, *rng.integers(0, m, 2).tolist()}) for i in range(n)]
        self.out = [sorted(set(rng.integers(0, m, 2).tolist())) for _ in range(n)]
        # the vectors lie in another order than the ids
        self.rows = rng.permutation(n), rng.permutation(m)

    def source(self) -> Embeddings:
        left, right = np.empty_like(self.left), np.empty_like(self.right)
        left[self.rows[0]], right[self.rows[1]] = self.left, self.right
        one, two = Vectors(left, self.cosine), Vectors(right, self.cosine)
        return Embeddings(one, two, self.rows[0], self.rows[1])

    def trials(self) -> Trials:
        n, m = len(self.left), len(self.right)
        pairs = [(i, c) for i, gold in enumerate(self.gold) for c in gold]
        out = [(i, c) for i, candidates in enumerate(self.out) for c in candidates]
        return Trials(
            np.arange(n),
            np.zeros(n, np.int64),
            Ragged.group(np.zeros(m), np.arange(m), 1),
            Judged.group([i for i, _ in pairs], [c for _, c in pairs], np.ones(len(pairs)), n),
            Ragged.group([i for i, _ in out], [c for _, c in out], n),
        )

    def count(self) -> list[tuple[int, int, int]]:
        m = len(self.right)
        stands, scored = stand(self.source(), self.trials())
        assert scored.tolist() == stands.sizes.tolist() == [m - len(out) for out in self.out]
        return list(zip(stands.better.tolist(), stands.tied.tolist(), stands.before.tolist(), strict=True))

    def slow(self) -> list[tuple[int, int, int]]:
        left, right = slow_vectors(self.left, self.cosine), slow_vectors(self.right, self.cosine)
        found = []
        for i, gold in enumerate(self.gold):
            scores = {c: slow_similarity(left[i], right[c]) for c in range(len(right)) if c not in self.out[i]}
            for c in gold:
                if c not in scores:
                    found.append((-1, 0, 0))
                    continue
                even = [other for other, score in scores.items() if score == scores[c]]
                better = sum(score > scores[c] for score in scores.values())
                found.append((better, len(even), sum(other > c for other in even)))
        return found


def spread(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Ordinary vectors: nothing is near anything."""
    return rng.normal(size=(N, d)), rng.normal(size=(M, d))


def crowded(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Candidates so alike that their scores lie within a few units in the last place of float32."""
    base = rng.normal(size=d)
    return rng.normal(size=(N, d)), base * (1 + 1e-7 * rng.integers(-3, 4, size=(M, d)))


def orthogonal(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Similarities that cancel to about zero, where a rounding error is large beside the score."""
    left = rng.normal(size=(N, d))
    right = rng.normal(size=(M, d))
    for i in range(M):
        a = left[i % N]
        right[i] -= a * (right[i] @ a) / (a @ a)
    return left, right


def copies(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A few vectors, each several times, at any place."""
    right = rng.normal(size=(5, d))[rng.integers(0, 5, M)]
    return rng.normal(size=(N, d)), right


def collapsed(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """One vector for everything."""
    one = rng.normal(size=d)
    return np.tile(one, (N, 1)), np.tile(one, (M, 1))


def uneven(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Norms from 1e-30 to 1e30 side by side."""
    left, right = spread(d, rng)
    return left * 10.0 ** rng.integers(-30, 31, (N, 1)), right * 10.0 ** rng.integers(-30, 31, (M, 1))


def tiny(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Norms about 1e-22: dot products are below the normal numbers of float32, some far below."""
    left, right = spread(d, rng)
    return left * 1e-22, right * 10.0 ** rng.integers(-26, -20, (M, 1))


def dwarfed(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """One query so long that the others, once shrunken with it, are below the normal numbers of float32."""
    left, right = spread(d, rng)
    return left * np.where(np.arange(N) == 3, 1e20, 10.0 ** -rng.integers(16, 26, N))[:, None], right


def lopsided(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Components from 1 down to 1e-42, most of them lost in a float32 product of shrunken vectors."""
    left, right = spread(d, rng)
    return left * 10.0 ** -rng.integers(0, 43, (N, d)), right * 10.0 ** -rng.integers(0, 43, (M, d))


def signs(d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Components −1, −0.0, 0.0 and 1: many exact ties between vectors that are not equal byte for byte."""
    left, right = (rng.choice([-1.0, -0.0, 0.0, 1.0], size=(n, d)) for n in (N, M))
    left[:, 0] = right[:, 0] = 1.0
    return left, right


MAKERS = (spread, crowded, orthogonal, copies, collapsed, uneven, tiny, dwarfed, lopsided, signs)
Maker = Callable[[int, np.random.Generator], tuple[Array, Array]]


def case(maker: Maker, d: int, width: type, cosine: bool, seed: int = 0) -> Case:
    with np.errstate(over="ignore", under="ignore"):
        left, right = (side.astype(width) for side in maker(d, np.random.default_rng(seed)))
    for side in (left, right):  # what a width can't hold is no case of its own
        side[~np.isfinite(side)] = np.finfo(width).max
        side[~side.any(axis=1), 0] = max(np.finfo(width).smallest_subnormal, 1e-40)
    return Case(left, right, cosine, seed)


@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "dot"])
@pytest.mark.parametrize("width", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 7, 33])
@pytest.mark.parametrize("maker", MAKERS)
def test_counts_equal_the_reference(maker: Maker, d: int, width: type, cosine: bool) -> None:
    made = case(maker, d, width, cosine, seed=d)
    assert made.count() == made.slow()


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.usefixtures("block_sizes")
def test_both_directions_in_one_pass(maker: Maker) -> None:
    """As many queries as candidates, ranked for each other, equals ranking either side alone."""
    left, right = (side[:N] for side in maker(16, np.random.default_rng(3)))
    with np.errstate(over="ignore", under="ignore"):
        left, right = left.astype(np.float32), right.astype(np.float32)
    for side in (left, right):
        side[~side.any(axis=1), 0] = 1e-40
    there, back = Case(left, right, True, 1), Case(right, left, True, 2)
    back.rows = there.rows[::-1]
    assert made_in_one_pass(there, back) == [there.slow(), back.slow()]


def made_in_one_pass(there: Case, back: Case) -> list[list[tuple[int, int, int]]]:
    found = stand_both(there.source(), there.trials(), back.trials())
    return [
        list(zip(stands.better.tolist(), stands.tied.tolist(), stands.before.tolist(), strict=True))
        for stands, _ in found
    ]


@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "dot"])
@pytest.mark.parametrize("d", [700, 1023, 1024])
@pytest.mark.parametrize("maker", [crowded, orthogonal, collapsed])
def test_counts_equal_the_reference_in_many_dimensions(maker: Maker, d: int, cosine: bool) -> None:
    made = case(maker, d, np.float32, cosine, seed=d)
    assert made.count() == made.slow()


def test_scores_one_unit_in_the_last_place_apart_do_not_tie() -> None:
    right = np.nextafter(np.float32(1), [np.float32(2), np.float32(1), np.float32(0)]).astype(np.float32)[:, None]
    made = Case(np.ones((1, 1), np.float32), right, cosine=False)
    made.gold, made.out = [[0, 1, 2]], [[]]
    assert made.count() == [(0, 1, 0), (1, 1, 0), (2, 1, 0)]


def test_the_near_ties_of_the_cases_are_real() -> None:
    """The crowded case must hold both exact ties and gaps of one unit, or it tests nothing."""
    made = case(crowded, 33, np.float64, True, seed=33)
    left, right = slow_vectors(made.left, True), slow_vectors(made.right, True)
    scores = np.sort(np.array([slow_similarity(left[0], r) for r in right], np.float32))
    steps = np.diff(scores) / np.spacing(scores[1:])
    assert (steps == 0).sum() > 3
    assert (np.abs(steps) == 1).sum() > 3
    assert np.abs(steps).max() < 100


SIZES = [  # rows, columns, numbers, dense, depth, threads, few
    (1, 1, 1, 0, 1, 1, 0),
    (2, 3, 64, 1, 5, 2, 0),
    (5, 8192, 1000, 0, 16, 3, 0),
    (1024, 7, 1 << 20, 32, 8, 1, 0),
    (3, 99, 64, 9**9, 512, 2, 0),
    (512, 11, 64, 32, 512, 2, 1 << 14),
]


@pytest.fixture(autouse=True)
def nothing_is_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases are small; they are to be counted as large ones are."""
    monkeypatch.setattr(blocks, "FEW", 0)


@pytest.fixture(params=SIZES)
def block_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of other sizes, so that right candidates, twins and exclusions fall on both sides of a border.

    And each way to decide what is near: pair by pair only, or by a float64 product as soon as one pair is.
    """
    rows, columns, numbers, dense, depth, threads, few = request.param
    monkeypatch.setattr(blocks, "PRODUCT_ROWS", rows)
    monkeypatch.setattr(vectors, "BLOCK_VECTORS", columns)
    monkeypatch.setattr(blocks, "TILE_NUMBERS", numbers)
    monkeypatch.setattr(blocks, "DENSE", dense)
    monkeypatch.setattr(blocks, "DEPTH", depth)
    monkeypatch.setattr(blocks, "THREADS", threads)
    monkeypatch.setattr("rankledger.ranking.threads.THREADS", threads)
    monkeypatch.setattr(blocks, "FEW", few)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.usefixtures("block_sizes")
def test_block_sizes_change_nothing(maker: Maker) -> None:
    made = case(maker, 16, np.float32, maker is not tiny, seed=5)
    assert made.count() == made.slow()


def test_a_product_decides_all_but_the_near_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is clear is not computed again, whatever the scale of the vectors; otherwise a run takes hours."""
    again: list[int] = []

    def watched(left: Vectors, right: Vectors, i: Array, j: Array, goal: Array) -> Array:
        again.append(len(i))
        return vectors.compare(left, right, i, j, goal)

    monkeypatch.setattr(blocks, "compare", watched)
    for scale in (1e-20, 1.0, 1e18):
        again.clear()
        left, right = spread(33, np.random.default_rng(1))
        made = Case(left * scale, right * scale, cosine=False)
        made.count()
        assert sum(again) < 5


def test_a_collapsed_run_ties_everywhere() -> None:
    one = np.random.default_rng(2).normal(size=700).astype(np.float32)
    made = Case(np.tile(one, (1000, 1)), np.tile(one, (1000, 1)), cosine=True)
    made.gold, made.out = [[i] for i in range(1000)], [[] for _ in range(1000)]
    assert made.count() == [(0, 1000, 999 - i) for i in range(1000)]


def test_equal_vectors_are_twins_and_zeros_of_two_signs_still_tie() -> None:
    right = np.array([[1.0, 0.0], [1.0, -0.0], [1.0, 0.0], [2.0, 0.0]], np.float32)
    twin = Vectors(right, cosine=True).twin
    assert twin[0] == twin[2]
    assert len({twin[0], twin[1], twin[3]}) == 3
    made = Case(np.array([[3.0, 4.0]], np.float32), right, cosine=True)
    made.gold, made.out = [[0]], [[]]
    assert made.count() == [(0, 4, 3)], "cosine looks at directions only"


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 700, 1023])
def test_the_sum_of_a_row_is_the_exact_sum_up_to_rounding(d: int) -> None:
    rng = np.random.default_rng(d)
    block = rng.normal(size=(20, d)) * 10.0 ** rng.integers(-8, 9, (20, d))
    found = sum_rows(block.copy())
    for row, total in zip(block, found, strict=True):
        assert total == halves(row.tolist())
        assert abs(total - math.fsum(row)) <= math.ceil(math.log2(d) + 1) * 2.0**-53 * math.fsum(abs(row))


def exact(a: Array, b: Array) -> float:
    return float(sum(Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)))


@pytest.mark.parametrize("maker", [spread, orthogonal, uneven, lopsided])
def test_similarity_is_the_exact_product_up_to_rounding(maker: Maker) -> None:
    made = case(maker, 65, np.float64, cosine=False)
    left, right = Vectors(made.left, False), Vectors(made.right, False)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(N), np.arange(M)))
    with np.errstate(over="ignore"):
        for x, y, found in zip(i, j, similarity(left, right, i, j), strict=True):
            wanted = exact(made.left[x], made.right[y])
            slack = 10 * 2.0**-53 * exact(abs(made.left[x]), abs(made.right[y]))
            low, high = np.float32(wanted - slack), np.float32(wanted + slack)
            assert low <= found <= high


@pytest.mark.parametrize("depth", [1, 10, 512])
@pytest.mark.parametrize("cosine", [True, False], ids=["cosine", "dot"])
@pytest.mark.parametrize("maker", MAKERS)
def test_the_product_is_within_its_bound(
    maker: Maker, cosine: bool, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound of the docstring against exact fractions, pair by pair."""
    monkeypatch.setattr(blocks, "DEPTH", depth)
    made = case(maker, 24, np.float64, cosine)
    left, right = Vectors(made.left, cosine), Vectors(made.right, cosine)
    one, two = left.rows(), right.rows()
    block = blocks.multiply(left.shrunken(), right.shrunken().T, *np.empty((2, len(one), M), np.float32))
    for i, a in enumerate(one):
        goal = similarity(left, right, np.full(M, i), np.arange(M))
        norms = np.full(M, left.norms[i])
        above, below = blocks.clear(goal, norms, right.norms.max(), 24, left.shrink * right.shrink)
        for j, b in enumerate(two):
            off = abs(Fraction(float(block[i, j])) - _shrunken(a, left) @ _shrunken(b, right))
            assert off <= Fraction(
                float(left.shrink * right.shrink * left.norms[i] * right.norms[j])
            ) * 30 / 2**24 + Fraction(1, 2**99)
            assert below[j] <= block[i, j] <= above[j], "the right candidate's own product is never clear"


def _shrunken(row: Array, side: Vectors) -> Array:
    return np.array([Fraction(float(x)) * Fraction(float(side.shrink)) for x in row], object)


def test_more_than_two_gigabytes_of_vectors_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are compared byte for byte without an Arrow array of all of them, which ends at 2 GiB."""
    many = np.broadcast_to(np.arange(1 << 14, dtype=np.float64), ((1 << 14) + 1, 1 << 14))
    assert many.nbytes > 2**31
    assert set(Vectors(many, cosine=True).twin) == {0}


SCRIPT = """
import hashlib
import numpy as np
from rankledger.ranking.counting import Group
from rankledger.ranking.sources import Embeddings
from rankledger.ranking.vectors import Vectors

digest, products = hashlib.sha256(), hashlib.sha256()
rng = np.random.default_rng(9)
one = rng.normal(size=300)
for left, right in (
    (np.tile(one, (300, 1)), np.tile(one, (300, 1))),
    (rng.normal(size=(300, 300)), one * (1 + 1e-7 * rng.integers(-3, 4, size=(300, 300)))),
    (rng.normal(size=(300, 300)), rng.normal(size=(40, 300))[rng.integers(0, 40, 300)]),
):
    for cosine in (True, False):
        sides = [Vectors(side.astype(np.float32), cosine) for side in (left, right)]
        source, all_of_them = Embeddings(*sides, np.arange(300), np.arange(300)), np.arange(300)
        none = np.zeros(0, np.int64)
        group = Group(all_of_them, all_of_them, all_of_them, all_of_them, none, none)
        for counts in source.count_both(group, group):
            for column in counts:
                digest.update(np.asarray(column, np.int64).tobytes())
    products.update((sides[0].shrunken() @ sides[1].shrunken().T).tobytes())
print(digest.hexdigest(), products.hexdigest())
"""


def test_threads_and_kernels_of_the_blas_change_no_count() -> None:
    """The float32 products differ between the kernels (or this test tests nothing); the counts do not."""
    settings = [{"OPENBLAS_NUM_THREADS": n} for n in ("1", "2")]
    settings += [{"OPENBLAS_CORETYPE": kernel} for kernel in ("Prescott", "Nehalem", "Sandybridge", "Haswell")]
    found = []
    for extra in settings:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, **extra}, capture_output=True, text=True, check=True
        )
        found.append(done.stdout.split())
    counts, products = zip(*found, strict=True)
    assert len(set(counts)) == 1
    assert len(set(products)) > 1


def test_embeddings_list_the_candidates_that_have_a_vector() -> None:
    """The vectors lie in another order than the ids, and id 1 has none."""
    left, right = np.ones((1, 1), np.float32), np.array([[3.0], [1.0], [2.0]], np.float32)
    source = Embeddings(Vectors(left, False), Vectors(right, False), np.array([0]), np.array([2, -1, 0, 1]))
    assert source.listed(0).tolist() == [0, 2, 3]
    none = Ragged.group([], [], 1)
    judged = Judged.group([0, 0], [0, 1], [1.0, 1.0], 1)
    stands, scored = stand(source, Trials(np.array([0]), np.array([LISTED]), none, judged, none))
    assert (stands.better.tolist(), stands.tied.tolist(), scored.tolist()) == ([1, -1], [1, 0], [3])
