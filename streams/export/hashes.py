"""The 64-bit hashes by which a data set identifies pages, paths, hosts and documents.

A hash of bytes is the first half of their MurmurHash3 (x64, 128 bits, seed 0), as a signed integer. An id that is
itself a hash, such as a document id, is represented by its first eight bytes as a signed big-endian integer. These
bytes are the beginning of the id that commands print in hexadecimal.

`streams.export.column_hashes` computes the same hashes for whole columns.
"""

from __future__ import annotations

import re

import mmh3

from state.codecs.url_key import host_prefix

INDEX_NAMES = (b"index", b"default")
INDEX_EXTENSIONS = (b"html", b"htm", b"php", b"asp", b"aspx", b"jsp", b"cgi", b"cfm", b"shtml", b"xhtml")
KEPT_ESCAPES = b"%/?#&=+;"  # decoding their escapes would change the structure of the URL
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_INDEX_FILE = re.compile(rb"/(?:%b)\.(?:%b)\Z" % (b"|".join(INDEX_NAMES), b"|".join(INDEX_EXTENSIONS)), re.IGNORECASE)


def url_hash(key: bytes) -> int:
    """Return the hash of a URL key, or of a part of one."""
    return mmh3.hash64(key)[0]


def page_key(key: bytes) -> bytes:
    """Return the normalised form of a URL key, which is the same for all spellings of a URL.

    Percent-escapes are decoded, except for characters that would act as delimiters once decoded. The name of a
    directory's index file is removed from the end of the path. The result may contain any byte.
    """
    path, mark, query = key.partition(b"?")
    path = _ESCAPE.sub(_decode_escape, path)
    if (name := _INDEX_FILE.search(path)) is not None:
        path = path[: name.start() + 1]
    return path + mark + _ESCAPE.sub(_decode_escape, query)


def page_hash(key: bytes) -> int:
    """Return the hash that identifies the page of a URL key."""
    return url_hash(page_key(key))


def path_hash(key: bytes) -> int:
    """Return the hash of the normalised path and query of a URL key."""
    return url_hash(page_key(key)[len(host_prefix(key)) :])


def host_hash(key: bytes) -> int:
    """Return the hash of the host of a URL key."""
    return url_hash(host_prefix(key))


def id_hash(id_: bytes) -> int:
    """Return the integer that identifies a document, a fingerprint or a list of links in a data set."""
    return int.from_bytes(id_[:8], "big", signed=True)


def _decode_escape(escape: re.Match[bytes]) -> bytes:
    byte = bytes((int(escape[1], 16),))
    return escape[0].upper() if byte in KEPT_ESCAPES else byte
