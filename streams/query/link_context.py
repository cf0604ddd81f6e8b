"""Find the words around a link in the stored text of its page, so that they need not be stored separately."""

from __future__ import annotations

CONTEXT_WORDS = 16  # on either side
_CONTEXT_CHARS_MAX = 1_000  # on either side; a block may be as long as a page
_TEXT_CHARS_MAX = 1 << 20  # longer texts are not searched to their end


def one_line_per_block(text: str) -> str:
    """Return a text with its words separated by single spaces, and its blocks (paragraphs, items) by newlines."""
    return "\n".join([" ".join(line.split()) for line in text[:_TEXT_CHARS_MAX].splitlines()])


def find_context(text: str, anchor: str) -> tuple[str, str]:
    """Return up to CONTEXT_WORDS words before and after the first occurrence of an anchor, within its block.

    `text` is a result of `one_line_per_block`. Both parts are empty if the text does not contain the anchor's words.
    The text does not show where links are, so the first occurrence may be before the link.
    """
    start = _find_words(text, anchor)
    if start < 0:
        return "", ""
    end = start + len(anchor)
    before = text[max(0, start - _CONTEXT_CHARS_MAX) : start].rpartition("\n")[2]
    after = text[end : end + _CONTEXT_CHARS_MAX].partition("\n")[0]
    return " ".join(before.split()[-CONTEXT_WORDS:]), " ".join(after.split()[:CONTEXT_WORDS])


def _find_words(text: str, words: str) -> int:
    """Return the position of the first occurrence of words that begins and ends with a whole word, or -1."""
    start = text.find(words) if words else -1
    while start >= 0:
        end = start + len(words)
        is_word_start = start == 0 or not (text[start - 1].isalnum() and words[0].isalnum())
        is_word_end = end == len(text) or not (text[end].isalnum() and words[-1].isalnum())
        if is_word_start and is_word_end:
            return start
        start = text.find(words, start + 1)
    return -1
