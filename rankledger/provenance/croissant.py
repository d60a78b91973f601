"""A subset's description for other tools: Croissant 1.1, a JSON-LD vocabulary for data sets, with its provenance.

Source: the Croissant format specification 1.1, http://mlcommons.org/croissant/1.1, and W3C PROV-O.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from rankledger.tables import read_schema, sha256_file, to_json

CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "prov": "http://www.w3.org/ns/prov#",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "conformsTo": "dct:conformsTo",
    **{
        term: f"cr:{term}"
        for term in (
            *("annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes"),
            *("extract", "field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray"),
            *("isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "readLines", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "sdVersion", "separator", "source"),
            *("subField", "transform", "unArchive", "value"),
        )
    },
}
TABLES = {
    "queries": "Who is asked: the queries of each task.",
    "pools": "The candidates of each pool.",
    "trials": "Which query is ranked against which pool, by task, view and repeat.",
    "qrels": "The right candidates of each query, with their relevance.",
    "exclusions": "Candidates that the protocol takes out of a query's pools.",
    "universe": "Every id that the source files know, by side.",
}
SPDX = ("MIT", "CC-BY-4.0", "CC-BY-NC-4.0")  # licences whose address is known


def croissant(folder: Path, manifest: Mapping[str, Any], title: str, paper: str, url: str, year: int) -> dict[str, Any]:
    """The content of `croissant.json` for the subset in `folder`.

    It names no clock, path or host: its date is the year of the paper, its version carries a hash of the content.

    Args:
        folder: where the tables lie.
        manifest: the subset's manifest.
        title, paper, url, year: of the benchmark: its name, where it is described, its page, the paper's year.

    Raises:
        InputError: a table is absent or can't be read.
    """
    name, made = manifest["benchmark"], manifest["parameters"]["source"] == "sample"
    tables = {table: folder / f"{table}.parquet" for table in TABLES}
    content = hashlib.sha256(to_json(manifest["fingerprints"]).encode()).hexdigest()
    what = f"Made-up data in the formats of {title}" if made else f"The test subset of {title}"
    sources = [_source(name, s) for s in manifest["sources"]]
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": f"rankledger-{name}",
        "description": f"{what}: queries, candidate pools, trials and relevance, as RankLedger scores runs on them.",
        "license": [_licence(text) for text in sorted({s["licence"] for s in manifest["sources"]})],
        "url": url,
        "creator": {"@type": "Organization", "name": "RankLedger" if made else f"The authors of {title}"},
        "datePublished": str(year),
        "version": f"1.0.0+{content[:12]}",
        "citeAs": paper,
        "distribution": [_file(path) for path in tables.values()],
        "recordSet": [_records(table, read_schema(path)) for table, path in tables.items()],
        "prov:wasDerivedFrom": sources,
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": f"rankledger build {name}",
            "prov:used": [{"@id": source["@id"]} for source in sources],
            "additionalProperty": [
                {"@type": "PropertyValue", "name": parameter, **({} if value is None else {"value": value})}
                for parameter, value in sorted(manifest["parameters"].items())
            ],
        },
    }


def _file(path: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": sha256_file(path),
    }


def _records(table: str, schema: pa.Schema) -> dict[str, Any]:
    return {
        "@type": "cr:RecordSet",
        "@id": table,
        "name": table,
        "description": TABLES[table],
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{table}/{column.name}",
                "name": column.name,
                **_type(column.type),
                "source": {"fileObject": {"@id": f"{table}.parquet"}, "extract": {"column": column.name}},
            }
            for column in schema
        ],
    }


def _type(dtype: pa.DataType) -> dict[str, Any]:
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return {**_type(dtype.value_type), "isArray": True, "arrayShape": "-1"}
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return {"dataType": "sc:Text"}
    if pa.types.is_integer(dtype):
        return {"dataType": "sc:Integer"}
    if pa.types.is_floating(dtype):
        return {"dataType": "sc:Float"}
    if pa.types.is_boolean(dtype):
        return {"dataType": "sc:Boolean"}
    raise TypeError(f"no Croissant type for a column of {dtype}")


def _licence(text: str) -> str | dict[str, Any]:
    """The address of a known licence, else its words."""
    spdx = text.split()[0]
    return f"https://spdx.org/licenses/{spdx}" if spdx in SPDX else {"@type": "CreativeWork", "name": text}


def _source(benchmark: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """A raw file as an entity."""
    return {
        "@type": "prov:Entity",
        "@id": quote(f"raw/{benchmark}/{source['name']}"),
        "name": source["name"],
        "contentSize": f"{source['size']} B",
        "sha256": source["sha256"],
        "license": _licence(source["licence"]),
        **({"url": source["url"]} if source["url"] else {}),
    }
