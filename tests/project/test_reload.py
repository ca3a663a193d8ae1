"""Settings read again while a daemon runs."""

from adaptd.project.layers import load_project
from adaptd.project.reload import FIXED, reload_project


def test_some_sections_wait_for_the_next_start(tmp_path):
    """What can change is taken over; a change of what cannot is named, and the daemon goes on with what it has."""
    settings = tmp_path / "adaptd.toml"
    settings.write_text("")
    before = load_project(tmp_path, environ={})
    settings.write_text("[intake]\nsettle_seconds = 1.0\n[metrics]\nport = 1\n")
    after, waiting = reload_project(before)
    assert waiting == ["metrics"]
    assert after.settings.intake.settle_seconds == 1.0
    assert [section for section in FIXED if getattr(after.settings, section) != getattr(before.settings, section)] == []
