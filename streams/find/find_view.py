"""What `find` asks of the state: a small reading protocol, which `state.view.View` meets and tests meet in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from state.model import Capture, DocumentRow, Sweep
    from state.scheme import Scheme


class FindView(Protocol):
    """Reads only; all lists are bounded by a limit or by what one URL or sweep holds."""

    @property
    def scheme(self) -> Scheme:
        """How the stored documents were sketched."""

    def sweeps(self) -> list[Sweep]:
        """Open and committed sweeps, in order of number."""

    def sweep_hosts(self, number: int, start: bytes = b"", limit: int | None = None) -> dict[bytes, int]:
        """Captures of one sweep by host key (`org,apache,flink)`), ascending, from `start` on, at most `limit`."""

    def host_captures(self, number: int, host: bytes) -> int:
        """Captures of one host in one sweep."""

    def histories(self, keys: list[bytes]) -> list[list[Capture]]:
        """All captures of each URL, in order of sweep and time."""

    def urls_under(self, prefix: bytes, captures_max: int, start: bytes | None = None) -> list[bytes]:
        """Keys of URLs under a prefix, from `start` on, ascending: those of the first `captures_max` captures."""

    def documents_by_prefixes(self, prefixes: list[bytes]) -> list[DocumentRow]:
        """The documents of postings."""

    def documents(self, documents: list[bytes]) -> list[DocumentRow | None]:
        """Documents by their ids."""

    def locations(self, documents: list[bytes], limit: int) -> list[list[bytes]]:
        """For each document, or prefix of some, the keys of at most `limit` URLs that hold or held it."""

    def locations_seen(self, documents: list[bytes], limit: int) -> list[list[tuple[bytes, int]]]:
        """As `locations`, each key with when the URL was first seen to hold the document, ms."""

    def titles_and_texts(self, documents: list[bytes]) -> list[tuple[str, str] | None]:
        """The title and kept text of each document, None where none is kept."""

    def buckets(self, buckets: list[bytes]) -> list[list[bytes]]:
        """Prefixes of the documents in LSH buckets."""

    def sample_postings(self, values: list[int], limit: int) -> list[list[bytes]]:
        """For each sampled shingle prefixes of the documents that it names, at most `limit`."""

    def word_postings(self, words: list[tuple[bytes, int]], limit: int) -> list[list[bytes]]:
        """For each site (4 bytes) and word prefixes of the documents that it names, at most `limit`."""
