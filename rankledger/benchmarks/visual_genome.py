"""Visual Genome: a scene graph looks for its image among 32,422, and an image for its scene graph."""

import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import pyarrow as pa

from rankledger.benchmarks.made import THINGS, choice, number, sample, write_raw
from rankledger.benchmarks.r_precision import RPrecision, Triplets, tables, texts
from rankledger.benchmarks.reading import parse, refuse, repeated
from rankledger.benchmarks.vg_sgg import DICTS, H5, read_sgg, write_sgg
from rankledger.subset import Subset
from rankledger.tables import InputError, few

IMAGE_DATA = ("image_data.json.zip", "image_data.json")
CORRUPT = (1592, 1722, 4616, 4617)  # the images that every loader leaves out
TRAIN_SHARE = 0.7
PUBLISHED = {"standard": 32_422, "sgg": 26_446}
PREDICATES = ("on", "near", "has", "in front of", "behind", "under", "holding", "wearing")


class VisualGenome(RPrecision):
    """Visual Genome.

    The order of `image_data.json` is the order of the split, and so part of the protocol: `standard` takes
    the first 70 % of its valid images for training, and the pools are consecutive images. `sgg` is the filter
    of the scene-graph loaders: the test images of VG-SGG.h5 that have boxes and relations; its i-th row is
    the i-th valid image.
    """

    name = "visual_genome"
    title = "Visual Genome"
    url = "https://visualgenome.org"
    licence = "CC BY 4.0"
    access = "open; bring objects.json, relationships.json or VG-SGG.h5 with VG-SGG-dicts.json yourself"
    defaults: ClassVar = {"split": "standard"}
    choices: ClassVar = {"split": ("standard", "sgg")}

    def files(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """The list of images, and what scene graphs are read from."""
        graphs = {"standard": ("objects.json?", "relationships.json?"), "sgg": (H5, f"{DICTS}?")}
        return ("|".join(IMAGE_DATA), *graphs[parameters["split"]])

    def published(self, parameters: Mapping[str, Any]) -> int | None:
        """Test images of a split."""
        return PUBLISHED[parameters["split"]]

    def build(self, raw: Path, parameters: Mapping[str, Any]) -> tuple[Subset, list[str]]:
        """The test images of the split with their scene graphs, in the order of `image_data.json`."""
        known = read_image_ids(raw)
        valid = [i for i in known if i not in CORRUPT]
        if parameters["split"] == "sgg":
            test, graphs, told = read_sgg(raw, valid)
        else:
            test = valid[int(TRAIN_SHARE * len(valid)) :]
            graphs, told = read_graphs(raw, test)
        if not test:
            raise InputError(f"{raw}: no test image is left of {len(valid)} valid ones; fetch the official files again")
        subset, notes = tables([str(i) for i in test], map(str, known), graphs)
        counts = f"{len(test):,} test images of {len(valid):,} valid ones, in the order of image_data.json"
        return subset, [f"split {parameters['split']}: {counts}", *told, *notes]

    def sample(self, folder: Path) -> None:
        """1,500 valid images, 450 of them for testing; VG-SGG.h5 too, where h5py is there to write it."""
        ids = sorted({*range(1, 4501, 3), *CORRUPT})
        records = [
            {
                "width": 800,
                "url": f"https://example.org/images/{i}.jpg",
                "height": 600,
                "image_id": i,
                "coco_id": None,
                "flickr_id": None,
            }
            for i in ids
        ]
        folder.mkdir(parents=True, exist_ok=True)
        member = zipfile.ZipInfo("image_data.json", (1980, 1, 1, 0, 0, 0))
        member.create_system = 3  # the same bytes on every system
        with zipfile.ZipFile(folder / IMAGE_DATA[0], "w") as archive:  # stored: no bytes of some zlib
            archive.writestr(member, json.dumps(records))
        graphs = {i: _made_graph(i) for i in ids}
        write_raw([{"image_id": i, "objects": g[0]} for i, g in graphs.items()], folder / "objects.json")
        write_raw([{"relationships": g[1], "image_id": i} for i, g in graphs.items()], folder / "relationships.json")
        valid = [graphs[i] for i in ids if i not in CORRUPT]
        write_sgg(folder, valid, int(TRAIN_SHARE * len(valid)), sorted(THINGS), sorted(PREDICATES))


def read_image_ids(raw: Path) -> list[int]:
    """The ids in `image_data.json`, zipped as it is published or not, in the order of the file."""
    found = [raw / name for name in IMAGE_DATA if (raw / name).is_file()]
    if not found:
        raise InputError(f"{raw}: neither {' nor '.join(IMAGE_DATA)}; fetch one of them")
    path = found[0]
    text = _unzipped(path, IMAGE_DATA[1]) if path.suffix == ".zip" else path.read_bytes()
    ids = [record["image_id"] for record in parse(text, [{"image_id": int}], path)]
    refuse(path, repeated(ids), "an image_id that stood earlier")
    return ids


def _unzipped(path: Path, name: str) -> bytes:
    """The one member of that name, in whatever folder of the archive it lies."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.namelist() if PurePosixPath(m).name == name]
            if len(members) != 1:
                raise InputError(f"{path}: holds {len(members)} files named {name}, not one; fetch it again")
            return archive.read(members[0])
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise InputError(f"{path}: not a whole zip file ({error}); fetch it again") from None


def read_graphs(raw: Path, test: Sequence[int]) -> tuple[dict[str, pa.Array], list[str]]:
    """What `objects.json` and `relationships.json` say of the test images, where these files are there."""
    graphs: dict[str, pa.Array] = {}
    notes: list[str] = []
    objects: dict[int, set[int]] = {}
    wanted = set(test)
    if (path := raw / "objects.json").is_file():
        objects = read_objects(path, wanted)
        graphs["objects"] = pa.array([len(objects[i]) if i in objects else None for i in test], pa.int64())
        notes += _missing(path, test, objects)
    if (path := raw / "relationships.json").is_file():
        relations, repeats = read_relations(path, wanted)
        graphs["relations"] = pa.array([len(relations[i]) if i in relations else None for i in test], pa.int64())
        graphs["text"] = texts(relations.get(i) for i in test)
        notes += _missing(path, test, relations)
        if repeats:
            notes.append(f"{path.name}: {repeats:,} relations of test images repeat an earlier one and are left out")
        loose = sorted(
            one
            for i, triplets in relations.items()
            if i in objects
            for s, _, o in triplets
            for one in (s, o)
            if one not in objects[i]
        )
        if loose:
            notes.append(
                f"{path.name}: {len(loose):,} ends of relations are objects that objects.json does not list "
                f"({few(loose)})"
            )
    return graphs, notes


def _missing(path: Path, test: Sequence[int], found: Mapping[int, object]) -> list[str]:
    missing = [i for i in test if i not in found]
    return [f"{path.name}: says nothing of {len(missing):,} test images ({few(missing)})"] if missing else []


def read_objects(path: Path, wanted: Set[int]) -> dict[int, set[int]]:
    """The object ids of each wanted image, from `objects.json` of version 1.0 or 1.2."""
    found = {}
    for position, image, objects in _stream(path, "objects"):
        if image in wanted:
            ids = [_object_id(one) for one in objects]
            if None in ids:
                refuse(path, [position], f"an object without a whole number as object_id (image {image})")
            found[image] = {i for i in ids if i is not None}
    return found


def read_relations(path: Path, wanted: Set[int]) -> tuple[dict[int, Triplets], int]:
    """The triplets of each wanted image, and how many relations repeat one, from version 1.0 or 1.2.

    Case and white space do not count: 1.0 has its predicates in lower case, 1.2 some of them in upper case.
    """
    found: dict[int, Triplets] = {}
    read = 0
    for position, image, relations in _stream(path, "relationships"):
        if image in wanted:
            triplets: Triplets = {}
            for relation in relations:
                match relation:
                    case {"subject": subject, "predicate": str(predicate), "object": target}:
                        ends = [(_object_id(end), _object_name(end)) for end in (subject, target)]
                    case _:
                        ends = []
                match ends:
                    case [(int(s), str(subject_name)), (int(o), str(object_name))]:
                        key = (s, _plain(predicate), o)
                        words = f"{_plain(subject_name)} {key[1]} {_plain(object_name)}"
                        triplets[key] = min(words, triplets.get(key, words))  # an object may have two names
                    case _:
                        refuse(path, [position], f"a relation that lacks a part (image {image})")
            read += len(relations)
            found[image] = triplets
    return found, read - sum(map(len, found.values()))


def _stream(path: Path, content: str) -> Iterator[tuple[int, int, list[Any]]]:
    """Position, image and list of each record of a file of hundreds of megabytes, one record at a time."""
    import ijson

    seen: set[int] = set()
    try:
        with path.open("rb") as file:
            for position, record in enumerate(ijson.items(file, "item", use_float=True)):
                match record:
                    case {"image_id": int(image)} | {"id": int(image)} if isinstance(record.get(content), list):
                        if image in seen:
                            refuse(path, [position], f"an image that stood earlier ({image})")
                        seen.add(image)
                        yield position, image, record[content]
                    case _:
                        refuse(path, [position], f"'image_id' or {content!r} is missing or of a wrong type")
    except ijson.JSONError as error:
        raise InputError(f"{path}: not JSON ({str(error).splitlines()[0]}); fetch it again") from None
    if not seen:
        raise InputError(f"{path}: holds no record; it should be a list of image_id and {content}")


def _object_id(thing: Any) -> int | None:
    match thing:
        case {"object_id": int(number)} | {"id": int(number)}:
            return number
    return None


def _object_name(thing: Any) -> str | None:
    match thing:
        case {"name": str(name)} | {"names": [str(name), *_]}:
            return name
    return None


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _made_graph(image: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Objects and relations of a made-up image; some repeat, some shout, some images have none."""
    key = ("visual_genome", image)
    things = sample(THINGS, 2 + number(*key, "objects") % 4, *key)
    objects: list[dict[str, Any]] = [
        {
            "synsets": [],
            "h": 40 + number(*key, "h", i) % 200,
            "object_id": 10 * image + i,
            "names": [thing],
            "w": 40 + number(*key, "w", i) % 200,
            "y": number(*key, "y", i) % 300,
            "x": number(*key, "x", i) % 500,
        }
        for i, thing in enumerate(things)
    ]
    relations = []
    for i in range(number(*key, "relations") % (2 * len(objects))):
        subject, target = sample(range(len(objects)), 2, *key, i)
        predicate = choice(PREDICATES, *key, "predicate", i)
        ends = [
            {"name": objects[end]["names"][0]} | {k: v for k, v in objects[end].items() if k != "names"}
            for end in (subject, target)
        ]
        relations.append(
            {
                "predicate": predicate.upper() if number(*key, "case", i) % 5 == 0 else predicate,
                "object": ends[1],
                "relationship_id": 100 * image + i,
                "synsets": [],
                "subject": ends[0],
            }
        )
    if len(relations) > 2:
        relations.append(relations[0] | {"relationship_id": 100 * image + len(relations)})
    return objects, relations


BENCHMARK = VisualGenome()
