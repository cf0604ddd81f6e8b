"""`state dump`: the rows of a family as JSON objects, for inspection and debugging."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from state import meta, sweeps
from state.codecs import (
    analysis_row,
    capture_row,
    decision_row,
    document_row,
    edge_row,
    link_chunk,
    link_list,
    location_row,
    posting_list,
)
from state.families import Family
from state.model import ID_BYTES, PREFIX_BYTES, TARGET_HASH_BYTES
from state.rows import RowReader
from state.view import View


def dump(store: RowReader, family: Family, key_prefix: bytes = b"") -> Iterator[dict[str, Any]]:
    """Yield the rows of a family in key order. A row that cannot be decoded is shown in hex, with the error."""
    view = View(store)
    for key, value in store.scan(family, key_prefix):
        try:
            yield _with_hex_values(_DECODERS[family](view, key, value))
        except ValueError as error:
            yield {"key": key.hex(), "value": value.hex(), "error": str(error)}


def _with_hex_values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()}


def _decode_analysis(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    results_key, chunk = analysis_row.decode_key(key)
    lines = [msgspec.json.decode(line) for line in analysis_row.decode(value)]
    content = {"header": lines[0]} if chunk == 0 else {"results": lines}
    return {**msgspec.to_builtins(results_key), "chunk": chunk, **content}


def _decode_capture(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    capture = capture_row.decode(key, value)
    return {**msgspec.to_builtins(capture, builtin_types=(bytes,)), "key": capture.key.decode("utf-8", "replace")}


def _decode_decision(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    decision = decision_row.decode(key, value)
    fields = msgspec.structs.asdict(decision)
    return {**fields, "key": decision.key.decode("utf-8", "replace"), "kind": decision.kind.name.lower()}


def _decode_document(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    row = document_row.decode(key, value)
    sketch = msgspec.structs.asdict(row.sketch)
    arrays = {"signature": row.sketch.signature.tobytes(), "sample": row.sketch.sample.tolist()}
    return {**sketch, **arrays, "first_seen": row.first_seen}


def _decode_location(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    url_key = key[ID_BYTES:].decode()
    return {"document": key[:ID_BYTES], "key": url_key, "first_seen": location_row.decode(value)}


def _decode_posting(_: View, key: bytes, __: bytes) -> dict[str, Any]:
    return {"entry": key[:-PREFIX_BYTES], "posting": key[-PREFIX_BYTES:]}


def _decode_text(view: View, key: bytes, value: bytes) -> dict[str, Any]:
    title, text = view.decode_text(value)
    return {"document": key, "title": title, "text": text}


def _decode_link_list(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    url_key, list_id = link_list.decode_key(key)
    return {"key": url_key.decode(), "list": list_id, "chunks": [id_.hex() for id_ in link_list.decode(value)]}


def _decode_link_chunk(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    chunk_id, url_key = key[: link_chunk.CHUNK_ID_BYTES], key[link_chunk.CHUNK_ID_BYTES :]
    if url_key:
        return {"chunk": chunk_id, "page": url_key.decode()}
    links = [msgspec.to_builtins(link, builtin_types=(bytes,)) for link in link_chunk.decode(value)]
    return {
        "chunk": chunk_id,
        "links": [{**link, "target": link["target"].decode("utf-8", "replace")} for link in links],
    }


def _decode_sweep(view: View, key: bytes, value: bytes) -> dict[str, Any]:
    if key.startswith(b"s"):
        return dict(msgspec.to_builtins(sweeps.decode(key, value)))
    return _decode_latin1(view, key, value)


def _decode_meta(view: View, key: bytes, value: bytes) -> dict[str, Any]:
    if key.startswith(meta.DICTIONARY):
        # The value is omitted, because a dictionary contains pieces of texts, even of deleted texts.
        return {"key": meta.DICTIONARY.decode(), "number": key[-1], "bytes": len(value)}
    if key == meta.SCHEME:
        # The seed is omitted, because anyone who knows a private seed can make pages that fill a bucket.
        fields = {name: field for name, field in msgspec.structs.asdict(view.scheme).items() if name != "seed"}
        return {"key": meta.SCHEME.decode(), "value": msgspec.json.encode(fields).decode()}
    return _decode_latin1(view, key, value)


def _decode_latin1(_: View, key: bytes, value: bytes) -> dict[str, Any]:
    return {"key": key.decode("latin-1"), "value": value.decode("latin-1")}


_DECODERS: dict[Family, Callable[[View, bytes, bytes], dict[str, Any]]] = {
    Family.CAPTURES: _decode_capture,
    Family.DOCUMENTS: _decode_document,
    Family.LOCATIONS: _decode_location,
    Family.BANDS: lambda _, key, value: {"bucket": key, "postings": [p.hex() for p in posting_list.decode(value)]},
    Family.SAMPLES: _decode_posting,
    Family.WORDS: _decode_posting,
    Family.EDGES: lambda _, key, value: msgspec.structs.asdict(edge_row.decode(key, value)),
    Family.LINK_LISTS: _decode_link_list,
    Family.LINK_CHUNKS: _decode_link_chunk,
    Family.LINK_TARGETS: lambda _, key, __: {
        "target_hash": key[:TARGET_HASH_BYTES],
        "chunk": key[TARGET_HASH_BYTES:],
    },
    Family.PARENTS: lambda _, key, value: {"document": key, "parent": value},
    Family.MEMBERS: lambda _, key, __: {"root": key[:ID_BYTES], "document": key[ID_BYTES:]},
    Family.TEXTS: _decode_text,
    Family.SWEEPS: _decode_sweep,
    Family.META: _decode_meta,
    Family.DECISIONS: _decode_decision,
    Family.ANALYSES: _decode_analysis,
}
