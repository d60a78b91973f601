"""Label metrics against tables worked by hand and against slow loops."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankledger.ranking.labels import METRICS, LabelMetric, parse

POSITION = {0: -2, 1: -1, 2: 1, 3: 2}


def total(name, gold, predicted):
    return parse(name).total(np.array(gold), np.array(predicted))


def values(name, gold, predicted):
    found = parse(name).values(np.array(gold), np.array(predicted))
    return None if found is None else found.tolist()


# Gold:     tres-facile ×3, facile ×2, moyennement ×1, difficile ×2.
# Distances: 0, 1, 4;       0, 3;      2;              1, 4.
GOLD = [0, 0, 0, 1, 1, 2, 3, 3]
ANSWER = [0, 1, 3, 1, 3, 1, 2, 0]


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        # (1 + 3/4 + 0) + (1 + 0) + 1/3 + (3/4 + 0) = 23/6 over 8 recipes
        ("EDRM_micro(dmax=class)", Fraction(23, 48)),
        # class means 7/12, 1/2, 1/3, 3/8
        ("EDRM_macro(dmax=class)", Fraction(43, 96)),
        # (1 + 2/3 − 1/3) + (1 + 0) + 1/3 + (2/3 − 1/3) = 3 over 8: the opposite end is below 0
        ("EDRM_micro(dmax=3)", Fraction(3, 8)),
        # class means 4/9, 1/2, 1/3, 1/6
        ("EDRM_macro(dmax=3)", Fraction(13, 36)),
        ("P_micro", Fraction(2, 8)),
        ("R_micro", Fraction(2, 8)),
        ("F_micro", Fraction(2, 8)),
        # answered: 2 (1 right), 3 (1), 1 (0), 2 (0)
        ("P_macro", (Fraction(1, 2) + Fraction(1, 3)) / 4),
        ("R_macro", (Fraction(1, 3) + Fraction(1, 2)) / 4),
        ("F_macro", Fraction(5, 24)),
    ],
)
def test_a_small_table_by_hand(name, by_hand):
    assert total(name, GOLD, ANSWER) == pytest.approx(float(by_hand), abs=1e-15)


@pytest.mark.parametrize(("dmax", "greatest"), [("class", (4, 3, 3, 4)), ("3", (3, 3, 3, 3))])
def test_credit_of_every_answer(dmax, greatest):
    for gold in range(4):
        for answer in range(4):
            expected = 1 - abs(POSITION[gold] - POSITION[answer]) / greatest[gold]
            assert values(f"EDRM_micro(dmax={dmax})", [gold], [answer]) == [expected]


def test_dmax_of_the_class_gives_zero_at_the_far_end_and_3_goes_below():
    assert total("EDRM_micro(dmax=class)", [0, 3], [3, 0]) == 0
    assert total("EDRM_micro(dmax=3)", [0, 3], [3, 0]) == pytest.approx(-1 / 3)


def test_macro_f_is_the_harmonic_mean_of_macro_p_and_r():
    gold, answer = [0, 0, 0, 0, 1, 2], [0, 0, 1, 2, 1, 0]
    # P: 2/3, 1/2, 0; R: 2/4, 1, 0
    p, r = Fraction(7, 18), Fraction(1, 2)
    class_f = (Fraction(4, 7) + Fraction(2, 3) + 0) / 3
    assert total("F_macro", gold, answer) == pytest.approx(float(2 * p * r / (p + r)))
    assert total("F_macro", gold, answer) != pytest.approx(float(class_f), abs=0.01)


def test_a_class_never_answered_has_no_precision_and_nothing_right_is_zero():
    assert total("P_macro", [0, 1], [0, 0]) == (1 / 2 + 0) / 2
    assert [total(f"{m}_macro", [0, 1], [1, 0]) for m in "PRF"] == [0, 0, 0]


def test_macro_is_over_the_classes_of_the_gold():
    # Class 2 is answered once and is never right: it has no row in the mean.
    assert total("P_macro", [0, 1, 1], [0, 1, 2]) == 1
    assert total("R_macro", [0, 1, 1], [0, 1, 2]) == (1 + 1 / 2) / 2
    assert total("EDRM_macro(dmax=class)", [1, 1], [1, 0]) == pytest.approx(1 - 1 / 6)


def naive(name, gold, answer):
    """The definitions, read aloud, in exact fractions."""
    measure, average = name.split("(")[0].split("_")
    classes = sorted(set(gold))
    dmax = {0: 4, 1: 3, 2: 3, 3: 4} if "class" in name else dict.fromkeys(range(4), 3)

    def mean(of):
        of = list(of)
        return sum(of, Fraction(0)) / len(of)

    def edrm(pairs):
        return mean(1 - Fraction(abs(POSITION[g] - POSITION[a]), dmax[g]) for g, a in pairs)

    pairs = list(zip(gold, answer, strict=True))
    of_class = [[(g, a) for g, a in pairs if g == c] for c in classes]
    if measure == "EDRM":
        return edrm(pairs) if average == "micro" else mean(map(edrm, of_class))
    if average == "micro":
        return mean(Fraction(g == a) for g, a in pairs)
    answered = [[g for g, a in pairs if a == c] for c in classes]
    p = mean(Fraction(a.count(c), len(a)) if a else Fraction(0) for c, a in zip(classes, answered, strict=True))
    r = mean(mean(Fraction(g == a) for g, a in ps) for ps in of_class)
    return {"P": p, "R": r, "F": 2 * p * r / (p + r) if p + r else Fraction(0)}[measure]


ANSWERS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40)


@settings(deadline=None)
@given(ANSWERS, st.randoms(use_true_random=False))
def test_totals_equal_the_slow_definition_in_any_order(pairs, random):
    gold, answer = zip(*pairs, strict=True)
    found = {name: total(name, gold, answer) for name in METRICS}
    assert found == pytest.approx({name: float(naive(name, gold, answer)) for name in METRICS}, abs=1e-14)
    random.shuffle(pairs)
    assert {name: total(name, *zip(*pairs, strict=True)) for name in METRICS} == found


@settings(deadline=None)
@given(ANSWERS)
def test_totals_are_means_of_the_values_of_the_queries(pairs):
    gold, answer = map(np.array, zip(*pairs, strict=True))
    for name, metric in METRICS.items():
        found = metric.values(gold, answer)
        if name in ("P_macro", "F_macro"):
            assert found is None
            continue
        assert found.shape == gold.shape
        assert found.dtype == np.float64
        parts = [found] if "micro" in name else [found[gold == c] for c in np.unique(gold)]
        assert metric.total(gold, answer) == pytest.approx(np.mean([np.mean(p) for p in parts]), abs=1e-14)


@settings(deadline=None)
@given(ANSWERS)
def test_all_right_is_one_everywhere(pairs):
    gold = np.array([g for g, _ in pairs])
    assert {metric.total(gold, gold) for metric in METRICS.values()} == {1.0}


def test_label_tasks_of_any_number_of_classes_but_edrm_of_four():
    assert total("R_macro", [0, 6, 6], [0, 6, 5]) == 0.75
    with pytest.raises(ValueError, match="defined for 4 classes, not for 5"):
        total("EDRM_micro(dmax=class)", [0], [4])


def test_metrics_print_as_they_parse():
    assert list(METRICS) == [
        "EDRM_micro(dmax=class)",
        "EDRM_macro(dmax=class)",
        "EDRM_micro(dmax=3)",
        "EDRM_macro(dmax=3)",
        *(f"{measure}_{average}" for measure in "PRF" for average in ("micro", "macro")),
    ]
    for text in METRICS:
        assert str(parse(text)) == text
        assert parse(text).higher_is_better
        assert parse(text).unit == "fraction"
    assert parse("EDRM_micro(dmax=3)") == LabelMetric("EDRM", "micro", "3")


@pytest.mark.parametrize("text", ["EDRM_micro", "EDRM_micro(dmax=4)", "F", "F_macro(dmax=3)", "R@1", ""])
def test_what_is_no_label_metric_is_refused(text):
    with pytest.raises(ValueError, match="no label metric"):
        parse(text)


@pytest.mark.parametrize("parts", [("Q", "micro"), ("F", "mean"), ("EDRM", "micro"), ("F", "macro", "3")])
def test_no_metric_is_made_of_parts_that_do_not_fit(parts):
    with pytest.raises(ValueError, match="no label metric"):
        LabelMetric(*parts)


@pytest.mark.parametrize(
    ("gold", "answer", "message"),
    [([], [], "no query"), ([0, 1], [0], "one answer a query"), ([0, -1], [0, 1], "below 0")],
)
def test_arrays_that_do_not_fit_are_refused(gold, answer, message):
    for metric in METRICS.values():
        for compute in (metric.total, metric.values):
            with pytest.raises(ValueError, match=message):
                compute(np.array(gold, np.int64), np.array(answer, np.int64))
