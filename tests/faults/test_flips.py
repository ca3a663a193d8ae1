"""Row 12: one byte of a checkpoint is not what was written. It is noticed, and the episode ends as if nothing had been.

Models: tests/publishing/test_repository.py flips every byte, tests/serving/test_hot_swap.py sees the version before served.
"""

import os
import random

import pytest

from tests.process.conftest import LONG

pytestmark = pytest.mark.long

ROUNDS = 100 if os.environ.get("ADAPTD_FAULTS") else 2


def test_a_flipped_byte_in_a_checkpoint(shop, start, drop, pictures, reference, figures):
    """Killed, flipped and started again, several times."""
    chance = random.Random(12)
    drop(pictures(0), shop.root / "inbox" / "camera")
    flipped = 0
    for number in range(ROUNDS):
        daemon = start(shop, env=LONG, log=f"log-{number}")
        daemon.training()
        daemon.kill()
        files = [path for path in (shop.state / "checkpoints").rglob("*") if path.is_file()]
        if not files:
            break
        path = chance.choice(files)
        content = bytearray(path.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        flipped += 1
    daemon = start(shop, env=LONG)
    daemon.until(camera="done")
    assert daemon.stop() == 0
    assert flipped >= min(ROUNDS, 2)
    reference(shop)
    figures(flipped=flipped)
