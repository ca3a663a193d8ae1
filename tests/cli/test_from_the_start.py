"""Commands in an interpreter that has imported nothing before them, at the width of a terminal."""

import pytest

COMMANDS = (
    ["status"],
    ["versions"],
    ["explain", "source"],
    ["matrix"],
    ["fsck"],
    ["gc", "--dry-run"],
    ["quarantine", "list"],
    ["config", "show"],
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_brings_all_it_needs(shop, adaptd_from_the_start, words):
    """It ends well, and says nothing at its end."""
    run = adaptd_from_the_start("--project", shop.root, *words)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout
