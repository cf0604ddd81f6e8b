"""Forgetting: pages, documents and cancelled sweeps taken out again, and only what they touched made anew."""

from streams.forgetting.removal import Forgotten, cancel_sweep, finish_cancelling, forget_document, forget_url

__all__ = ["Forgotten", "cancel_sweep", "finish_cancelling", "forget_document", "forget_url"]
