"""`state dump`: every row of a family as a JSON object, for people and for debugging."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from state import meta, sweeps
from state.codecs import capture_row, document_row, edge_row, location_row, posting_list
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES
from state.rows import RowReader
from state.view import View


def dump(store: RowReader, family: Family, prefix: bytes = b"") -> Iterator[dict[str, Any]]:
    """Rows of one family in order of key; one that does not decode is shown in hex with the error."""
    view = View(store)
    for key, value in store.scan(family, prefix):
        try:
            yield _row(view, family, key, value)
        except ValueError as error:
            yield {"key": key.hex(), "value": value.hex(), "error": str(error)}


def _row(view: View, family: Family, key: bytes, value: bytes) -> dict[str, Any]:
    match family:
        case Family.CAPTURES:
            held = capture_row.decode(key, value)
            return {
                **msgspec.structs.asdict(held),
                "key": held.key.decode("utf-8", "replace"),
                "document": held.document.hex() if held.document else None,
                "raw": held.raw.hex(),
            }
        case Family.DOCUMENTS:
            row = document_row.decode(key, value)
            sketch = msgspec.structs.asdict(row.sketch)
            arrays = {"signature": row.sketch.signature.tobytes().hex(), "sample": row.sketch.sample.tolist()}
            return {**sketch, **arrays, "document": key.hex(), "first_seen": row.first_seen}
        case Family.LOCATIONS:
            seen = location_row.decode(value)
            return {"document": key[:ID_BYTES].hex(), "key": key[ID_BYTES:].decode(), "first_seen": seen}
        case Family.BANDS:
            return {"bucket": key.hex(), "postings": [prefix.hex() for prefix in posting_list.decode(value)]}
        case Family.SAMPLES | Family.WORDS:
            return {"entry": key[:-PREFIX_BYTES].hex(), "posting": key[-PREFIX_BYTES:].hex()}
        case Family.EDGES:
            pair = edge_row.decode(key, value)
            return {**msgspec.structs.asdict(pair), "a": pair.a.hex(), "b": pair.b.hex()}
        case Family.PARENTS:
            return {"document": key.hex(), "parent": value.hex()}
        case Family.MEMBERS:
            return {"root": key[:ID_BYTES].hex(), "document": key[ID_BYTES:].hex()}
        case Family.TEXTS:
            title, text = view.decode_text(value)
            return {"document": key.hex(), "title": title, "text": text}
        case Family.SWEEPS if key.startswith(b"s"):
            return msgspec.structs.asdict(sweeps.decode(key, value))
        case Family.META if key.startswith(meta.DICTIONARY):
            # Pieces of texts, perhaps of some that were forgotten since.
            return {"key": meta.DICTIONARY.decode(), "number": key[-1], "bytes": len(value)}
        case Family.META if key == meta.SCHEME:
            # Who knows a private seed can make pages that crowd a bucket.
            fields = {name: held for name, held in msgspec.structs.asdict(view.scheme).items() if name != "seed"}
            return {"key": meta.SCHEME.decode(), "value": msgspec.json.encode(fields).decode()}
        case _:
            return {"key": key.decode("latin-1"), "value": value.decode("latin-1")}
