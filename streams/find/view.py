"""What `find` asks of the state: a small reading protocol, which `state.view.View` meets and tests meet in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from state.scheme import Scheme
    from state.values import Capture, DocumentRow, Sweep


class FindView(Protocol):
    """Reads only; all lists are bounded by a limit or by what one URL or sweep holds."""

    @property
    def scheme(self) -> Scheme:
        """How the stored documents were sketched."""

    def sweeps(self) -> list[Sweep]:
        """Open and committed sweeps, in order of number."""

    def sweep_hosts(self, number: int) -> dict[bytes, int]:
        """Captures of one sweep by host key (`org,apache,flink)`)."""

    def host_captures(self, number: int, host: bytes) -> int:
        """Captures of one host in one sweep."""

    def captures(self, key: bytes) -> list[Capture]:
        """All captures of one URL, in order of sweep and time."""

    def urls_under(self, prefix: bytes, captures_max: int, start: bytes | None = None) -> list[bytes]:
        """Keys of URLs under a prefix, from `start` on, ascending: those of the first `captures_max` captures."""

    def documents_by_prefixes(self, prefixes: list[bytes]) -> list[DocumentRow]:
        """The documents of postings."""

    def document(self, document_id: bytes) -> DocumentRow | None:
        """A document by its id."""

    def locations(self, document_id: bytes, limit: int) -> list[bytes]:
        """Keys of the URLs that hold or held a document, or all documents whose ids begin with what is given."""

    def title_and_text(self, document_id: bytes) -> tuple[str, str] | None:
        """A document's title and kept text, or None where texts are not kept."""

    def buckets(self, buckets: list[bytes]) -> list[list[bytes]]:
        """Prefixes of the documents in LSH buckets."""

    def sample_postings(self, value: int, limit: int) -> list[bytes]:
        """Prefixes of documents that a sampled shingle names, at most `limit`."""

    def word_postings(self, site: bytes, word: int, limit: int) -> list[bytes]:
        """Prefixes of documents of a site (4 bytes) that a word names, at most `limit`."""
