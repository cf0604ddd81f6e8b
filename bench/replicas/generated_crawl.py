"""Write data sets of any size directly as Parquet: hosts with trees of pages, copies of them, and links.

A tenth of the hosts are copies of other sites, as in the study of Bharat and Broder. One site has hundreds of copies.
Three tenths of the copies lie below a directory of their host. A fifth of a copy's pages are missing, and another fifth
are edited. One site of 20 has paths that other sites have too. Each page links to ten pages: neighbours, the start page,
and a page of another host.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numba import njit
from numpy.typing import NDArray

from streams.export import schema
from streams.export.column_hashes import hash_key
from streams.settings import load

PAGES_PER_HOST = 42  # 10 million pages on 238,000 hosts
LINKS_PER_PAGE = 10
COPIED_SHARE, GRAFTED_SHARE, MISSING_SHARE, EDITED_SHARE = 0.1, 0.3, 0.2, 0.2
MANY_COPIES = 300
PAGES_PER_DIRECTORY = 12
SITES_PER_USUAL_SITE = 20  # one site of 20 has the paths of a usual software, which other sites have too
SAMPLE_SIZE, EDITED_BINS, SHINGLES_PER_PAGE = 16, 8, 300
TIME = 1_767_225_600_000
_CHUNK_PAGES = 200_000
_HOST_PAGES_MAX = 20_000
_WORDS = ("docs", "guide", "api", "news", "blog", "items", "archive", "people", "help", "files", "notes")

Integers = NDArray[np.int64]


class Hosts(NamedTuple):
    """The columns of all hosts. A host is a copy of the site of another host, or its own site."""

    site: Integers  # the host whose pages it has
    pages: Integers  # of the site
    is_copy: NDArray[np.bool_]
    is_grafted: NDArray[np.bool_]


class Chunk(NamedTuple):
    """The pages of some hosts: for each page, its host, and its site and number in the site."""

    host: Integers
    site: Integers
    number: Integers
    is_edited: NDArray[np.bool_]
    is_copied: NDArray[np.bool_]  # the same document is on the original host
    is_grafted: NDArray[np.bool_]


def write(folder: Path, pages: int, seed: int = 1) -> tuple[int, int, int]:
    """Write a data set with about this many pages. Return the numbers of hosts, pages and links."""
    rng = np.random.default_rng(seed)
    hosts = _hosts(max(20, pages // PAGES_PER_HOST), rng)
    totals = np.zeros(2, dtype=np.int64)
    for table in ("captures", "documents", "links"):
        (folder / table / "00000001").mkdir(parents=True)
    for table in ("clusters", "hosts"):
        (folder / table).mkdir(parents=True)
    for part, chunk in enumerate(_chunks(hosts, rng)):
        totals += _write_chunk(folder, part, chunk, rng)
    (folder / schema.MANIFEST_FILE).write_text("{}")
    return len(hosts.site), int(totals[0]), int(totals[1])


def _hosts(count: int, rng: np.random.Generator) -> Hosts:
    """Choose the sizes of the sites, and which hosts are copies."""
    sizes = rng.lognormal(0, 1.2, count)
    sizes = np.clip(sizes * (PAGES_PER_HOST / sizes.mean()), 4, _HOST_PAGES_MAX).astype(np.int64)
    is_copy = rng.random(count) < COPIED_SHARE
    is_copy[0] = False
    originals = np.flatnonzero(~is_copy)
    site = np.where(is_copy, originals[rng.integers(0, len(originals) // 3 + 1, count)], np.arange(count))
    many = np.flatnonzero(is_copy)[: min(MANY_COPIES, count // 100)]
    site[many] = 0
    sizes[0] = 30
    return Hosts(site, sizes[site], is_copy, is_copy & (rng.random(count) < GRAFTED_SHARE))


def _chunks(hosts: Hosts, rng: np.random.Generator) -> Iterator[Chunk]:
    ends = np.cumsum(hosts.pages)
    first = 0
    while first < len(ends):
        start = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, start + _CHUNK_PAGES)))
        sizes = hosts.pages[first:last]
        host = np.repeat(np.arange(first, first + len(sizes)), sizes)
        number = np.arange(len(host)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        is_copy = hosts.is_copy[host]
        is_present = ~is_copy | (rng.random(len(host)) >= MISSING_SHARE)
        is_edited = is_copy & (rng.random(len(host)) < EDITED_SHARE)
        host, number, is_edited = host[is_present], number[is_present], is_edited[is_present]
        is_copied = hosts.is_copy[host] & ~is_edited
        yield Chunk(host, hosts.site[host], number, is_edited, is_copied, hosts.is_grafted[host])
        first = last


def _write_chunk(folder: Path, part: int, chunk: Chunk, rng: np.random.Generator) -> tuple[int, int]:
    """Write the files of one chunk. Return the numbers of pages and links."""
    pages = len(chunk.host)
    keys, names = _url_keys(chunk)
    page, path, host = _hash_keys(keys)
    cluster = _mix(chunk.site * np.int64(1 << 24) + chunk.number)
    document = np.where(chunk.is_edited, _mix(cluster + chunk.host), cluster)
    link_list = _mix(page)
    captures = {
        "page": page,
        "path": path,
        "host": host,
        "url_key": keys,
        "https": np.ones(pages, dtype=np.bool_),
        "sweep": np.full(pages, 1),
        "time": np.full(pages, TIME),
        "status": np.full(pages, 200),
        "document": document,
        "fingerprint": document,
        "link_list": link_list,
        "redirect": pa.nulls(pages, pa.string()),
    }
    _write(folder, "captures", part, captures)
    _write_documents(folder, part, chunk, document, cluster)
    links = _links(chunk.host, page, rng)
    source = np.repeat(page, LINKS_PER_PAGE)
    columns = {
        "source": source,
        "link_list": np.repeat(link_list, LINKS_PER_PAGE),
        "target": page[links],
        "target_host": host[links],
        "kind": np.zeros(len(links)),
        "nofollow": np.zeros(len(links), dtype=np.bool_),
        "navigation": np.tile(np.arange(LINKS_PER_PAGE) == 0, pages),
        "anchor": pa.array(["next page"]).take(pa.array(np.zeros(len(links), dtype=np.int64))),
    }
    _write(folder, "links", part, columns)
    firsts = np.flatnonzero(np.diff(chunk.host, prepend=-1))
    counts = np.diff(firsts, append=pages)
    host_columns = {
        "host": host[firsts],
        "name": names.take(pa.array(firsts)),
        "sweep": np.full(len(firsts), 1),
        "captures": counts,
    }
    _write(folder, "hosts", part, host_columns)
    return pages, len(links)


def _url_keys(chunk: Chunk) -> tuple[pa.Array, pa.Array]:
    """Return the URL keys, and the names of the hosts."""
    words = pa.array(_WORDS)
    directory = chunk.number // PAGES_PER_DIRECTORY
    word = words.take(pa.array((chunk.site + directory) % len(_WORDS)))
    names = pc.binary_join_element_wise("example,h", _text(chunk.host), ")", "")
    graft = pc.if_else(pa.array(chunk.is_grafted), "mirror/copy/", "")
    site = pc.if_else(pa.array(chunk.site % SITES_PER_USUAL_SITE == 0), "p", pc.utf8_rpad(_text(chunk.site), 9, "-"))
    file = pc.if_else(
        pa.array(chunk.number == 0), "", pc.binary_join_element_wise(site, _text(chunk.number), ".html", "")
    )
    folder = pc.if_else(
        pa.array(chunk.number == 0), "", pc.binary_join_element_wise(word, "/s", _text(directory), "/", "")
    )
    return pc.binary_join_element_wise(names, "/", graft, folder, file, ""), names


def _text(numbers: Integers) -> pa.Array:
    return pa.array(numbers).cast(pa.string())


def _hash_keys(keys: pa.Array) -> tuple[Integers, Integers, Integers]:
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, np.int32)[: len(keys) + 1].astype(np.int64)
    columns = _hash_all(np.frombuffer(data, np.uint8), bounds)
    return columns[0], columns[1], columns[2]


@njit(cache=True)
def _hash_all(data, bounds):  # type: ignore[no-untyped-def]
    columns = np.empty((3, len(bounds) - 1), dtype=np.int64)
    scratch = np.empty(4096, dtype=np.uint8)
    for row in range(len(bounds) - 1):
        page, path, host = hash_key(data, bounds[row], bounds[row + 1], scratch)
        columns[0, row], columns[1, row], columns[2, row] = page, path, host
    return columns


def _mix(values: Integers) -> Integers:
    """Return pseudo-random integers that depend only on the values (splitmix64)."""
    z = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))).view(np.int64)


def _write_documents(folder: Path, part: int, chunk: Chunk, document: Integers, cluster: Integers) -> None:
    """Write the documents that no other chunk contains, and their clusters."""
    is_new = ~chunk.is_copied
    document, cluster, is_edited = document[is_new], cluster[is_new], chunk.is_edited[is_new]
    scheme = load().scheme
    signature = _random_bytes(cluster, scheme.bands * scheme.rows)
    signature[is_edited, :EDITED_BINS] ^= _random_bytes(document[is_edited], EDITED_BINS)
    sample = _random_bytes(cluster + 1, 4 * SAMPLE_SIZE).view("<u4")
    sample[is_edited, 0] = _random_bytes(document[is_edited], 4).view("<u4")[:, 0]
    sample.sort(axis=1)
    columns = {
        "document": document,
        "id": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), len(document), [None, pa.py_buffer(_random_bytes(document, 16).tobytes())]
        ),
        "first_seen": np.full(len(document), TIME),
        "tokens": np.full(len(document), SHINGLES_PER_PAGE),
        "shingles": np.full(len(document), SAMPLE_SIZE),
        "exponent": np.zeros(len(document)),
        "signature": _binary(signature),
        "sample": _binary(sample.view(np.uint8)),
    }
    _write(folder, "documents", part, columns)
    _write(folder, "clusters", part, {"document": document, "cluster": cluster})


def _random_bytes(keys: Integers, size: int) -> NDArray[np.uint8]:
    """Return a row of pseudo-random bytes per key."""
    words = -(-size // 8)
    values = _mix(keys[:, None] + np.arange(words) * np.int64(0x632BE59BD9B4E019))
    return np.ascontiguousarray(values.view(np.uint8).reshape(len(keys), -1)[:, :size])


def _binary(rows: NDArray[np.uint8]) -> pa.Array:
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(rows.shape[1])
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(rows.tobytes())])


def _links(host: Integers, page: Integers, rng: np.random.Generator) -> Integers:
    """Return the positions of the linked pages: the start page, neighbours, and one page of any host of the chunk."""
    firsts = np.flatnonzero(np.diff(host, prepend=-1))
    sizes = np.diff(firsts, append=len(host))
    first, size = np.repeat(firsts, sizes), np.repeat(sizes, sizes)
    position = np.arange(len(host))
    steps = [1, 2, 3, 5, 8, 13, 21, 34]
    columns = [
        first,
        *(first + (position - first + step) % size for step in steps),
        rng.integers(0, len(page), len(page)),
    ]
    return np.stack(columns, axis=1).ravel()


def _write(folder: Path, table: str, part: int, columns: dict[str, Any]) -> None:
    fields = schema.TABLES[table]
    arrays = [pa.array(columns[field.name]).cast(field.type) for field in fields]
    path = folder / table / "00000001" if table in schema.SWEEP_TABLES else folder / table
    pq.write_table(pa.Table.from_arrays(arrays, schema=fields), path / f"part-{part:05}.parquet", compression="zstd")
