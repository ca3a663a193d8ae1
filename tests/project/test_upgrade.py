"""An adaptd.toml with old names is written anew: nothing is lost, nothing is opened to others, nothing half-right is written."""

import pytest

from adaptd.errors import ConfigError
from adaptd.project.layers import load_project
from adaptd.project.upgrade import upgrade_file

OLD = """[gate]
max_source_drop = 0.05
[method]
name = "grcl"
temperature = 0.2
blend = 0.1
[database]
url = "postgresql://u:secret@h/d"
"""


@pytest.fixture
def root(tmp_path):
    """A project whose settings others may not read."""
    (tmp_path / "adaptd.toml").write_text(OLD)
    (tmp_path / "adaptd.toml").chmod(0o600)
    return tmp_path


def rewrite(root, text):
    """Another file in its place."""
    (root / "adaptd.toml").write_text(text)
    return root


def test_values_keep_their_meaning_and_the_files_their_mode(root):
    """Each value is found under its new names, also those of methods that are not chosen; the old file stays as it was."""
    done = upgrade_file(root)
    settings = load_project(root, {}).settings
    assert (settings.gate.max_source_loss, settings.method.options_of("grcl").temperature) == (0.05, 0.2)
    assert settings.method.options_of("guarded").mixup == 0.1
    assert (done.kept.read_text(), done.changed) == (OLD, ())
    assert {path.stat().st_mode & 0o777 for path in (done.kept, root / "adaptd.toml")} == {0o600}
    assert upgrade_file(root) is None


def test_what_had_no_effect_is_told(root):
    """Momentum did nothing with guarded's update rule, and is an error today."""
    done = upgrade_file(rewrite(root, '[method]\nname = "guarded"\nwarp = 0.5\n[training]\nmomentum = 0.9\n'))
    assert done.changed == ("training.momentum was 0.9 and had no effect: it is 0.0 now",)
    assert load_project(root, {}).settings.training.momentum == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[gate]\nmax_source_drop = 0.05\nmax_source_loss = 0.01\n", "both are there: remove one of them"),
        ('[gate]\nmax_source_drop = "x"\n', "max_source_loss = 'x'"),
        ("[gate]\nmax_source_drop = 0.1\nmax_drip = 1\n", "gate.max_drip: nothing has this name"),
        ("gate = 3\n[method]\nblend = 0.1\n", "gate: nothing has this name"),
        ("[gate\n", "cannot be read"),
    ],
)
def test_what_would_not_hold_is_refused_whole(root, text, message):
    """One clear message, and the file stays as it was."""
    with pytest.raises(ConfigError, match=message):
        upgrade_file(rewrite(root, text))
    assert ((root / "adaptd.toml").read_text(), len(list(root.iterdir()))) == (text, 1)


def test_an_earlier_copy_is_never_overwritten(root):
    """A second upgrade asks for room."""
    (root / "adaptd.toml.before-upgrade").write_text("mine")
    with pytest.raises(ConfigError, match="is there already: move it away"):
        upgrade_file(root)
    assert (root / "adaptd.toml").read_text() == OLD


def test_an_old_variable_is_told_its_new_name(root):
    """The command that renames settings cannot rename a variable."""
    with pytest.raises(ConfigError, match=r"ADAPTD_GATE__MAX_SOURCE_DROP: .*; it is ADAPTD_GATE__MAX_SOURCE_LOSS today$"):
        load_project(rewrite(root, ""), {"ADAPTD_GATE__MAX_SOURCE_DROP": "0.1"})
    with pytest.raises(ConfigError, match=r"^ADAPTD_METHOD__MAGIC__X: \[method.magic\]: unknown section"):
        load_project(root, {"ADAPTD_METHOD__MAGIC__X": "1"})
