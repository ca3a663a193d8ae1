"""How often a drop that is still changing is looked at."""

from adaptd.intake.scanner import Scanner
from adaptd.intake.settling import DropState, Settling


def test_the_last_change_is_waited_for_once(tmp_path):
    """A drop is settled soon after nothing changed for settle_seconds, not after twice that time."""
    now = [0.0]
    scanner = Scanner(tmp_path, Settling(5, 3600), 60, clock=lambda: now[0])
    folder = tmp_path / "camera"
    folder.mkdir()
    (folder / "1.png").write_bytes(b"1")
    scanner.scan()
    now[0] = 0.5
    (folder / "2.png").write_bytes(b"2")  # the last one, just after a look
    states = {}
    for tenth in range(10, 100):
        now[0] = tenth / 10
        states[now[0]] = scanner.scan().drops[0].state
    settled = min(moment for moment, state in states.items() if state is DropState.SETTLED)
    assert 5.5 <= settled <= 7.0
