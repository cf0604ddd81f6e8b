"""The tables of a Parquet data set: their columns, and the files that contain them.

    FOLDER/export.json                             the scheme and the exported sweeps; written last
    FOLDER/captures/SWEEP/part-PARTITION.parquet   the captures of a sweep
    FOLDER/documents/SWEEP/part-...                the documents that no earlier sweep contains
    FOLDER/links/SWEEP/part-...                    the lists of links that no earlier sweep contains
    FOLDER/clusters/part-...                       the cluster of each document
    FOLDER/hosts/part-...                          the number of captures per host and sweep

SWEEP is the number of a sweep in eight digits. PARTITION is the number of a Kafka partition in five digits, or 00000
if the state is not on Kafka. Files of different partitions contain different rows, with two exceptions: a host's
captures are counted per partition, and two partitions may contain the same links of a page whose URL has several
spellings.

URLs, hosts, paths and documents are identified by hashes of 64 bits, so that joins compare integers:

    page        the URL key after normalisation: percent-escapes decoded, a final `index.html` or similar removed
    path        the part of the normalised URL key after the host
    host        the part of the URL key up to and including `)`
    document    the first eight bytes of the document id
"""

from __future__ import annotations

import pyarrow as pa

_HASH = pa.int64()

CAPTURES = pa.schema(
    [
        ("page", _HASH),
        ("path", _HASH),
        ("host", _HASH),
        ("url_key", pa.string()),  # as stored: in SURT order, not normalised
        ("https", pa.bool_()),
        ("sweep", pa.int32()),
        ("time", pa.int64()),  # ms since the epoch, UTC
        ("status", pa.int16()),
        ("document", _HASH),  # null if the page has no document
        ("fingerprint", _HASH),  # of the raw bytes; null if the page was not sketched
        ("link_list", _HASH),  # null if the page has no links
        ("redirect", pa.string()),  # the URL to which the response redirected, or null
    ]
)
DOCUMENTS = pa.schema(
    [
        ("document", _HASH),
        ("id", pa.binary(16)),
        ("first_seen", pa.int64()),  # ms since the epoch, UTC
        ("tokens", pa.int32()),
        ("shingles", pa.int32()),
        ("exponent", pa.int8()),  # the sample contains the shingles whose hash is divisible by 2**exponent
        ("signature", pa.binary()),  # one byte per bin
        ("sample", pa.binary()),  # four bytes per shingle, little-endian, ascending
    ]
)
CLUSTERS = pa.schema([("document", _HASH), ("cluster", _HASH)])  # a cluster is identified by its root
LINKS = pa.schema(
    [
        ("source", _HASH),  # a page
        ("link_list", _HASH),  # identifies, with `source`, a version of the page's links; captures refer to it
        ("target", _HASH),  # a page
        ("target_host", _HASH),
        ("kind", pa.int8()),  # a value of `LinkKind`
        ("nofollow", pa.bool_()),
        ("navigation", pa.bool_()),  # in the page's navigation instead of its main content
        ("anchor", pa.string()),
    ]
)
HOSTS = pa.schema(
    [
        ("host", _HASH),
        ("name", pa.string()),  # the host part of the URL key, such as `org,example,www)`
        ("sweep", pa.int32()),
        ("captures", pa.int64()),
    ]
)

TABLES = {"captures": CAPTURES, "documents": DOCUMENTS, "clusters": CLUSTERS, "links": LINKS, "hosts": HOSTS}
SWEEP_TABLES = frozenset({"captures", "documents", "links"})  # the tables with a folder per sweep
MANIFEST_FILE = "export.json"


def files_pattern(table: str) -> str:
    """Return the glob pattern of a table's files, relative to the folder of the data set."""
    return f"{table}/*/*.parquet" if table in SWEEP_TABLES else f"{table}/*.parquet"
