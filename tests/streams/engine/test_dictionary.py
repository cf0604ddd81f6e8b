"""A dictionary for texts is trained once there are enough documents."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from state import meta
from state.families import Family
from state.store import Store
from state.view import View
from streams.engine import dictionary
from streams.urls import url_key
from tests.samples import NOW, page, settings, take, words

DICTIONARY_AT = 21  # in a row of texts


def test_a_dictionary_is_learned_and_texts_are_still_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dictionary, "TRAINING_DOCUMENTS", 200)
    rng = random.Random(4)
    frame = " ".join(words(rng, 500))
    lines = [page(f"https://a.org/{n}", f"{frame} page {n} " + " ".join(words(rng, 60)), NOW) for n in range(300)]
    take(store, tmp_path / "a.jsonl", lines, "one", settings({"ingest": {"batch_pages": 100}}))
    assert list(meta.dictionaries(store)) == [1]
    numbers = [value[DICTIONARY_AT] for _, value in store.scan(Family.TEXTS)]
    assert set(numbers) == {0, 1}
    view = View(store)
    for line in lines[:3] + lines[-3:]:
        document = view.captures(url_key(line["url"]))[0].document
        assert view.text(document or b"") == line["text"]
    sizes = {number: [len(v) for _, v in store.scan(Family.TEXTS) if v[DICTIONARY_AT] == number] for number in (0, 1)}
    assert sum(sizes[1]) / len(sizes[1]) < sum(sizes[0]) / len(sizes[0])
