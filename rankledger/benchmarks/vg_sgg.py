"""VG-SGG.h5 and VG-SGG-dicts.json: Visual Genome as the scene-graph loaders read it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankledger.benchmarks.made import write_raw
from rankledger.benchmarks.r_precision import Triplets, texts
from rankledger.benchmarks.reading import read_raw, refuse
from rankledger.tables import InputError, few

H5, DICTS = "VG-SGG.h5", "VG-SGG-dicts.json"
BOUNDS = [f"img_to_{end}_{what}" for end in ("first", "last") for what in ("box", "rel")]

Ints = NDArray[np.int64]


def read_sgg(raw: Path, valid: Sequence[int]) -> tuple[list[int], dict[str, pa.Array], list[str]]:
    """The loaders' test images and their graphs, from `VG-SGG.h5` and, for the words, `VG-SGG-dicts.json`.

    `img_to_first_*` and `img_to_last_*` are inclusive bounds into the boxes and relations of all images,
    −1 = none; a relation names its boxes by their positions among all boxes; labels and predicates are
    counted from 1.
    """
    path = raw / H5
    data = _read_h5(path)
    if len(data["split"]) != len(valid):
        raise InputError(
            f"{path}: has {len(data['split']):,} rows, but image_data.json has {len(valid):,} valid images; "
            "fetch files that belong together"
        )
    if len(odd := np.setdiff1d(data["split"], (0, 1, 2))):
        raise InputError(f"{path}: 'split' holds {few(odd.tolist())}; it should be 0, 1 or 2 (2 = test)")
    tested = data["split"] == 2
    kept = np.flatnonzero(tested & (data["img_to_first_box"] >= 0) & (data["img_to_first_rel"] >= 0))
    words = _words(raw / DICTS)
    _check_sgg(path, data, kept, words)
    boxes = data["img_to_last_box"][kept] - data["img_to_first_box"][kept] + 1
    relations: list[Triplets] = []
    for row in kept.tolist():
        some = slice(data["img_to_first_rel"][row], data["img_to_last_rel"][row] + 1)
        triplets: Triplets = {}
        for (s, o), p in zip(data["relationships"][some].tolist(), data["predicates"][some].tolist(), strict=True):
            named = [words["idx_to_label"][data["labels"][i]] for i in (s, o)] if words else ["", ""]
            predicate = words["idx_to_predicate"][p] if words else str(p)
            triplets.setdefault((s, str(p), o), f"{named[0]} {predicate} {named[1]}")
        relations.append(triplets)
    graphs = {"objects": pa.array(boxes, pa.int64()), "relations": pa.array(map(len, relations), pa.int64())}
    if words:
        graphs["text"] = texts(relations)
    empty = int(tested.sum()) - len(kept)
    return (
        [valid[row] for row in kept.tolist()],
        graphs,
        [f"{path.name}: {empty:,} test images without boxes or relations are left out"],
    )


def _read_h5(path: Path) -> dict[str, Ints]:
    """The arrays of `VG-SGG.h5` that say what is where; one-column matrices as vectors."""
    try:
        import h5py
    except ImportError:
        raise InputError(f"{path}: reading it needs h5py: pip install 'rankledger[h5]'") from None
    names = ["split", *BOUNDS, "labels", "relationships", "predicates"]
    try:
        with h5py.File(path) as file:
            data = {name: np.asarray(file[name]) for name in names}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; put it into the inbox") from None
    except (OSError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a whole VG-SGG.h5 ({error})") from None
    data["labels"], data["predicates"] = data["labels"].ravel(), data["predicates"].ravel()
    bad = [
        n for n, a in data.items() if a.dtype.kind not in "iu" or a.shape[1:] != ((2,) if n == "relationships" else ())
    ]
    bad += [n for n in BOUNDS if len(data[n]) != len(data["split"])]
    bad += ["predicates"] if len(data["predicates"]) != len(data["relationships"]) else []
    if bad:
        raise InputError(f"{path}: {few(bad)} of a wrong type or shape; it is no VG-SGG.h5")
    return {name: array.astype(np.int64) for name, array in data.items()}


def _words(path: Path) -> dict[str, dict[int, str]]:
    """Labels and predicates by their number, from 1; empty where the file is absent."""
    if not path.is_file():
        return {}
    shape = {"idx_to_label": {str: str}, "idx_to_predicate": {str: str}}
    content, words = read_raw(path, shape), {}
    for name in shape:
        numbers = {str(i): i for i in range(1, len(content[name]) + 1)}
        if set(numbers) != set(content[name]):
            raise InputError(f"{path}: the keys of {name} should be '1' to '{len(numbers)}'")
        words[name] = {numbers[key]: word for key, word in content[name].items()}
    return words


def _check_sgg(path: Path, data: Mapping[str, Ints], kept: Ints, words: Mapping[str, Mapping[int, str]]) -> None:
    """Refuse bounds, boxes and numbers of the kept images that point outside of what they belong to."""
    for what, held in (("box", "labels"), ("rel", "predicates")):
        first, last = data[f"img_to_first_{what}"][kept], data[f"img_to_last_{what}"][kept]
        refuse(
            path,
            kept[(last < first) | (last >= len(data[held]))].tolist(),
            f"img_to_*_{what} is no range of {held}",
        )
    first, last = data["img_to_first_rel"][kept], data["img_to_last_rel"][kept]
    of = np.repeat(kept, last - first + 1)  # the image of each relation
    relation = np.concatenate([np.arange(a, b + 1) for a, b in zip(first, last, strict=True)] or [of])
    ends = data["relationships"][relation]
    outside = (ends < data["img_to_first_box"][of, None]) | (ends > data["img_to_last_box"][of, None])
    refuse(path, np.unique(of[outside.any(axis=1)]).tolist(), "a relation between boxes of another image")
    for name, numbers in (
        ("idx_to_label", data["labels"][ends]),
        ("idx_to_predicate", data["predicates"][relation, None]),
    ):
        most = len(words[name]) if words else np.inf
        refuse(
            path,
            np.unique(of[((numbers < 1) | (numbers > most)).any(axis=1)]).tolist(),
            f"a number that {name} does not have",
        )


# objects and relations of an image as in objects.json and relationships.json
Graph = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def write_sgg(
    folder: Path, graphs: Sequence[Graph], train: int, labels: Sequence[str], predicates: Sequence[str]
) -> None:
    """Write `VG-SGG-dicts.json` and, where h5py is there, `VG-SGG.h5`; `train` graphs have split 0."""
    label_to_idx = {label: i for i, label in enumerate(labels, 1)}
    predicate_to_idx = {predicate: i for i, predicate in enumerate(predicates, 1)}
    write_raw(
        {
            "idx_to_label": {str(i): label for label, i in label_to_idx.items()},
            "label_to_idx": label_to_idx,
            "idx_to_predicate": {str(i): predicate for predicate, i in predicate_to_idx.items()},
            "predicate_to_idx": predicate_to_idx,
            "object_count": dict(Counter(o["names"][0] for objects, _ in graphs for o in objects)),
            "predicate_count": dict(Counter(r["predicate"].lower() for _, relations in graphs for r in relations)),
        },
        folder / DICTS,
    )
    try:
        import h5py
    except ImportError:
        return
    boxes: list[tuple[int, ...]] = []
    box_labels: list[int] = []
    pairs: list[tuple[int, int]] = []
    pair_predicates: list[int] = []
    bounds: dict[str, list[int]] = {name: [] for name in BOUNDS}
    for objects, relations in graphs:
        position = {one["object_id"]: len(boxes) + i for i, one in enumerate(objects)}
        bounds["img_to_first_box"].append(len(boxes) if objects else -1)
        bounds["img_to_first_rel"].append(len(pairs) if relations else -1)
        boxes += [(o["x"] + o["w"] // 2, o["y"] + o["h"] // 2, o["w"], o["h"]) for o in objects]
        box_labels += [label_to_idx[o["names"][0]] for o in objects]
        pairs += [(position[r["subject"]["object_id"]], position[r["object"]["object_id"]]) for r in relations]
        pair_predicates += [predicate_to_idx[r["predicate"].lower()] for r in relations]
        bounds["img_to_last_box"].append(len(boxes) - 1 if objects else -1)
        bounds["img_to_last_rel"].append(len(pairs) - 1 if relations else -1)
    with h5py.File(folder / H5, "w") as file:
        file["split"] = np.array([0] * train + [2] * (len(graphs) - train), np.int32)
        file["boxes_1024"] = np.array(boxes, np.int32)
        file["boxes_512"] = np.array(boxes, np.int32) // 2
        file["labels"] = np.array(box_labels)[:, None]
        file["relationships"] = np.array(pairs, np.int32)
        file["predicates"] = np.array(pair_predicates)[:, None]
        for name, positions in bounds.items():
            file[name] = np.array(positions, np.int32)
