"""trec_eval: `python -m bench.peers.trec_eval QRELS RUN MEASURE[.CUT,CUT] …` prints each measure's mean.

The C code of trec_eval 9 lies compiled (-O3) in the extension of pytrec_eval-terrier, its readers and all its
measures under their own names. Only `main` is not there; its loop is below, without its linear search for a query's
judgements. Structures are those of trec_eval.h.
"""

import ctypes
import sys
from ctypes import POINTER, c_char_p, c_double, c_int, c_long, c_void_p

import pytrec_eval_ext


class MeasureArgument(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("parameters", c_char_p)]


class Settings(ctypes.Structure):  # EPI
    _fields_ = [
        ("query", c_long),
        ("summary", c_long),
        ("debug", c_long),
        ("debug_query", c_char_p),
        ("relation", c_long),
        ("average_complete", c_long),
        ("judged_only", c_long),
        ("collection", c_long),
        ("relevance_level", c_long),
        ("most_per_topic", c_long),
        ("rel_info_format", c_char_p),
        ("results_format", c_char_p),
        ("zscore", c_long),
        ("arguments", POINTER(MeasureArgument)),
    ]


class Value(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_double)]


class Values(ctypes.Structure):  # TREC_EVAL
    _fields_ = [
        ("query", c_char_p),
        ("queries", c_long),
        ("values", POINTER(Value)),
        ("count", c_long),
        ("room", c_long),
    ]


class Results(ctypes.Structure):
    _fields_ = [("query", c_char_p), ("run", c_char_p), ("format", c_char_p), ("rows", c_void_p)]


class Judgements(ctypes.Structure):  # REL_INFO
    _fields_ = [("query", c_char_p), ("format", c_char_p), ("rows", c_void_p)]


class AllResults(ctypes.Structure):
    _fields_ = [("count", c_long), ("room", c_long), ("items", POINTER(Results))]


class AllJudgements(ctypes.Structure):
    _fields_ = [("count", c_long), ("room", c_long), ("items", POINTER(Judgements))]


PROCEDURES = ("init", "calculate", "accumulate", "average", "print_single", "print_final")


class Measure(ctypes.Structure):  # TREC_MEAS
    _fields_ = [
        ("name", c_char_p),
        ("explanation", c_char_p),
        *(
            (name, ctypes.CFUNCTYPE(c_int, *[c_void_p] * n))
            for name, n in zip(PROCEDURES, (3, 5, 4, 4, 3, 3), strict=True)
        ),
        ("parameters", c_void_p),
        ("index", c_long),
    ]


def means(qrels: str, run: str, wanted: list[str]) -> dict[str, float]:
    """The mean of each measure over the queries that both files have, as trec_eval computes it."""
    library = ctypes.CDLL(pytrec_eval_ext.__file__)
    arguments = [MeasureArgument(*(part.encode() for part in name.split("."))) for name in wanted if "." in name]
    settings = Settings(
        summary=1,
        relation=1,
        relevance_level=1,
        most_per_topic=2**63 - 1,
        rel_info_format=b"qrels",
        results_format=b"trec_results",
        arguments=(MeasureArgument * (len(arguments) + 1))(*arguments),
    )
    judged, ranked = AllJudgements(), AllResults()
    epi = ctypes.byref(settings)
    for read, path, into in ((library.te_get_qrels, qrels, judged), (library.te_get_trec_results, run, ranked)):
        if read(epi, path.encode(), ctypes.byref(into)) < 0:
            raise SystemExit(f"trec_eval can't read {path}")
    measures = [Measure.in_dll(library, f"te_meas_{name.split('.')[0]}") for name in wanted]
    total = Values()
    for measure in measures:
        measure.init(epi, ctypes.byref(measure), ctypes.byref(total))
    values = (Value * total.count)(*((total.values[i].name, 0.0) for i in range(total.count)))
    one = Values(values=values, count=total.count, room=total.count)
    by_query = {judged.items[i].query: judged.items[i] for i in range(judged.count)}
    for i in range(ranked.count):
        judgements = by_query.get(ranked.items[i].query)
        if judgements is None:
            continue
        one.query = ranked.items[i].query
        for measure in measures:
            measure.calculate(
                epi, ctypes.byref(judgements), ctypes.byref(ranked.items[i]), ctypes.byref(measure), ctypes.byref(one)
            )
            measure.accumulate(epi, ctypes.byref(measure), ctypes.byref(one), ctypes.byref(total))
        total.queries += 1
        for value in values:
            value.value = 0.0
    for measure in measures:
        measure.average(epi, ctypes.byref(measure), ctypes.byref(judged), ctypes.byref(total))
    return {total.values[i].name.decode(): total.values[i].value for i in range(total.count)}


if __name__ == "__main__":
    for name, value in means(sys.argv[1], sys.argv[2], sys.argv[3:]).items():
        print(f"{name:22}\tall\t{value:.4f}")
