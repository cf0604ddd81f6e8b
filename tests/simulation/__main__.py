"""Replay one history: `python -m tests.simulation pages|joins|limited|cancelled|analysed SEED`."""

from __future__ import annotations

import sys

from tests.simulation import histories
from tests.simulation.analysed import analysed

KINDS = {
    "pages": histories.pages,
    "joins": histories.joins,
    "limited": histories.limited,
    "cancelled": histories.cancelled,
    "analysed": analysed,
}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS or not sys.argv[2].isdigit():
        sys.exit(f"usage: python -m tests.simulation {'|'.join(KINDS)} SEED")
    KINDS[sys.argv[1]](int(sys.argv[2]))
    print(f"{sys.argv[1]} {sys.argv[2]}: passed")
