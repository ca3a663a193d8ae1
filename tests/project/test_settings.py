"""Settings come from four layers, and what is wrong is named."""

import copy
import json
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adaptd.errors import ConfigError, ProjectNotFound
from adaptd.learning.methods.settings import MethodSettings
from adaptd.project.catalogue import list_keys, sections, setting_names
from adaptd.project.layers import find_project, load_project, parse_settings
from adaptd.project.renamed import RENAMED, rename_settings
from adaptd.project.settings import Settings
from adaptd.project.toml import render_toml

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path):
    """A project with a file to fill."""
    (tmp_path / "adaptd.toml").write_text("")
    return tmp_path


def problem(folder: Path, text: str, environ: dict[str, str] | None = None) -> str:
    """What is said about a file with this text."""
    (folder / "adaptd.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_project(folder, environ or {})
    return str(caught.value)


def _names(document: dict, prefix: str = "") -> list[str]:
    """Every `section.key` of a document."""
    found = []
    for key, value in document.items():
        found += _names(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]
    return found


class TestLayers:
    def test_assignments_for_one_episode(self, folder):
        """Stronger than all others, read as the environment is, and with origins of their own."""
        wanted = ["training.epochs=5", "method.name = grcl"]
        project = load_project(folder, {"ADAPTD_TRAINING__EPOCHS": "3"}, {"training.epochs": 4}, wanted)
        assert (project.settings.training.epochs, project.settings.method.name) == (5, "grcl")
        assert project.origins["training.epochs"] == "--set training.epochs"

    @pytest.mark.parametrize(
        ("wanted", "said"),
        [
            ("training.epochs", "--set training.epochs: write section.key=value"),
            ("epochs=3", "it belongs under [source] or [training]"),
            ("training.epochs=many", "--set training.epochs: [training] epochs = 'many'"),
            ("training.epoch=3", "did you mean epochs?"),
            ("method.name=magic", "guarded"),
            ("serving.port=1", "[serving] counts for no episode; those that do: method, training"),
            ("trainin.epochs=1", "did you mean [training]?"),
            ("method.guarded.patiense=1", "did you mean patience?"),
        ],
    )
    def test_wrong_assignments_are_told(self, folder, wanted, said):
        """The key, and what is allowed or meant."""
        with pytest.raises(ConfigError) as caught:
            load_project(folder, {}, assignments=[wanted])
        assert said in str(caught.value)

    def test_each_layer_goes_before_the_one_below(self, folder):
        """Command line, environment, file, default; each value knows its origin."""
        (folder / "adaptd.toml").write_text("[training]\nepochs = 2\nseed = 2\nbatch_size = 8\n")
        environ = {"ADAPTD_TRAINING__EPOCHS": "3", "ADAPTD_TRAINING__SEED": "3"}
        project = load_project(folder, environ, {"training.epochs": 4, "training.threads": None})
        training = project.settings.training
        assert (training.epochs, training.seed, training.batch_size, training.threads) == (4, 3, 8, 0)
        assert [project.origins[f"training.{key}"] for key in ("epochs", "seed", "batch_size", "threads")] == [
            "--epochs",
            "ADAPTD_TRAINING__SEED",
            str(folder / "adaptd.toml"),
            "default",
        ]

    def test_the_environment_speaks_every_type(self, folder):
        """Numbers, booleans, text and lists."""
        environ = {
            "ADAPTD_INTAKE__SETTLE_SECONDS": "0.5",
            "ADAPTD_SOURCE__AUGMENT": "false",
            "ADAPTD_MODEL__NAME": "123",
            "ADAPTD_MODEL__CLASSES": "cat, dog",
            "ADAPTD_MODEL__MEAN": "[0.1, 0.2, 0.3]",
            "ADAPTD_MODEL__STD": "1,2,3",
        }
        settings = load_project(folder, environ).settings
        assert (settings.intake.settle_seconds, settings.source.augment) == (0.5, False)
        assert (settings.model.name, settings.model.classes) == ("123", ("cat", "dog"))
        assert (settings.model.mean, settings.model.std) == ((0.1, 0.2, 0.3), (1, 2, 3))

    def test_other_variables_are_left_alone(self, folder):
        """ADAPTD_ without a section is no setting."""
        assert load_project(folder, {"ADAPTD_BENCH_DATA": "/x"}).settings == Settings()

    def test_the_hash_follows_the_values(self, folder):
        """Equal settings, equal hash; another value, another hash."""
        default = load_project(folder, {}).settings.hash
        assert load_project(folder, {"ADAPTD_TRAINING__EPOCHS": str(Settings().training.epochs)}).settings.hash == default
        assert load_project(folder, {"ADAPTD_TRAINING__SEED": "9"}).settings.hash != default

    def test_the_nearest_parent_is_the_project(self, folder):
        """Commands work anywhere inside a project."""
        inner = folder / "inbox" / "camera"
        inner.mkdir(parents=True)
        assert find_project(inner) == folder
        with pytest.raises(ProjectNotFound, match="adaptd init"):
            load_project(inner)


class TestPlaces:
    def test_a_mark_at_the_beginning_of_the_file_is_no_problem(self, folder):
        """Some editors write a byte order mark."""
        (folder / "adaptd.toml").write_text("[training]\nepochs = 2\n", encoding="utf-8-sig")
        assert load_project(folder, {}).settings.training.epochs == 2

    @pytest.mark.parametrize(
        ("url", "place"),
        [
            ("", "state/adaptd.db"),
            ("sqlite:///a b.db", "a b.db"),
            ("sqlite:///a%3Fb.db?x=1", "a?b.db"),
            ("sqlite:////x.db", "/x.db"),
        ],
    )
    def test_a_sqlite_file_is_relative_to_the_project(self, folder, url, place, monkeypatch):
        """Not to the folder one happens to be in."""
        monkeypatch.chdir("/")
        assert load_project(folder, {"ADAPTD_DATABASE__URL": url}).database == folder / place

    def test_folders_may_lie_elsewhere(self, folder, monkeypatch):
        """Absolute paths and ~ are taken as a shell would."""
        monkeypatch.setenv("HOME", "/home/jo")
        project = load_project(folder, {"ADAPTD_PATHS__STATE": "~/state", "ADAPTD_PATHS__INBOX": "/mnt/inbox"})
        assert (str(project.state), str(project.inbox), project.models) == ("/home/jo/state", "/mnt/inbox", folder / "models")

    def test_the_folder_is_named_without_detours(self, folder):
        """`a/../b` is b."""
        assert load_project(folder / "x" / "..", {}).root == folder.resolve()

    @pytest.mark.parametrize(
        "url", ["postgresql://u:secret@h/x", "postgresql://u:s/e@secret@h/x", "postgresql://u@h/x?a=1&password=secret"]
    )
    def test_the_password_is_used_but_never_shown(self, folder, url):
        """Settings are printed and stored with episodes, and their hash outlives a change of password."""
        project = load_project(folder, {"ADAPTD_DATABASE__URL": url})
        assert project.database == url
        assert "secret" not in project.settings.model_dump_json()
        assert (
            load_project(folder, {"ADAPTD_DATABASE__URL": url.replace("secret", "other")}).settings.hash == project.settings.hash
        )


class TestProblems:
    def test_an_unknown_key_names_file_key_and_the_nearest(self, folder):
        """A typing mistake is answered with the right word."""
        assert (
            problem(folder, "[training]\nepoch = 1")
            == f"{folder}/adaptd.toml: [training] epoch: unknown key; did you mean epochs?"
        )

    @pytest.mark.parametrize(
        ("text", "allowed"),
        [
            ("[training]\ndevice = 'gpu'", "[training] device = 'gpu': allowed: auto, cpu, mps, cuda, cuda:N for GPU number N"),
            ("[serving]\ndevice = 'CPU'", "allowed: auto, cpu, mps, cuda, cuda:N for GPU number N"),
            ("[intake]\nwindow = '22-6'", "allowed: two times of day such as 22:00-06:00, or nothing"),
            ("[model]\nname = 'My Model'", "allowed: small letters, digits, dots, dashes and underscores, 63 at most"),
            ("[paths]\ninbox = ''", "allowed: a path"),
            ("[metrics]\ntoken = 'two words'", "token = ***: allowed: letters, digits and signs of ASCII, no spaces"),
        ],
    )
    def test_what_is_allowed_is_said_in_words(self, folder, text, allowed):
        """Nobody has to read a pattern."""
        assert allowed in problem(folder, text)

    def test_a_key_in_the_wrong_place(self, folder):
        """The section it belongs to is named."""
        assert "belongs under [intake]" in problem(folder, "[training]\nsettle_seconds = 1")
        assert "belongs under [source] or [training]" in problem(folder, "epochs = 1")

    def test_an_unknown_section(self, folder):
        """Also an empty one."""
        assert "did you mean [training]" in problem(folder, "[trainin]\nepochs = 1")
        assert "did you mean [training]" in problem(folder, "[trainin]")
        assert "there are paths, model" in problem(folder, "[xyz]\nq = 1")

    def test_a_wrong_type_shows_the_value(self, folder):
        """Text is no number, and 1.5 is no count."""
        text = problem(folder, '[training]\nepochs = "12"\nseed = 1.5\n')
        assert "[training] epochs = '12': input should be a valid integer" in text
        assert "[training] seed = 1.5" in text

    def test_allowed_values_are_listed(self, folder):
        """A choice names its choices."""
        assert "'auto', 'human' or 'json'" in problem(folder, '[logging]\nformat = "xml"')

    def test_an_unknown_method_is_answered_with_the_nearest(self, folder):
        """Names come from the registry; one that is like nothing lists them all."""
        assert "[method] name = 'gaurded': there is no method named 'gaurded': did you mean guarded?" in problem(
            folder, '[method]\nname = "gaurded"'
        )
        assert "choose one of grcl, contrastive+sdc" in problem(folder, '[method]\nname = "magic"')
        assert "there is no method named 'supervised'" in problem(folder, '[method]\nname = "supervised"')

    def test_a_variable_is_named_as_the_origin(self, folder):
        """The person must know which layer to mend."""
        assert problem(folder, "", {"ADAPTD_TRAINING__EPOCHS": "many"}).startswith(
            "ADAPTD_TRAINING__EPOCHS: [training] epochs = 'many'"
        )
        assert "ADAPTD_TRAINING__EPOCS: [training] epocs: unknown key" in problem(folder, "", {"ADAPTD_TRAINING__EPOCS": "1"})

    @pytest.mark.parametrize("content", [b"[training", b"\xff\xfe", b"[[model]]\nname = 'x'", b"model = 3"])
    def test_files_that_are_no_settings(self, folder, content):
        """Broken TOML, other encodings and wrong shapes are one message."""
        (folder / "adaptd.toml").write_bytes(content)
        with pytest.raises(ConfigError, match=r"adaptd\.toml"):
            load_project(folder, {})

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        )
    )
    def test_any_override_is_taken_or_refused(self, value):
        """No value makes it crash."""
        try:
            load_project(REPOSITORY, {}, {"training.epochs": value, "model.classes": value})
        except ConfigError as caught:
            assert "--" in str(caught)  # noqa: PT017

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("[training]\nlearning_rate = inf", "finite number"),
            ("[training]\nseed = 99999999999999999999", "less than 9223372036854775808"),
            ("[training]\nsource_share = 0.5\nmemory_share = 0.5", "[training] source_share and memory_share together"),
            ("[model]\nmean = [1.0]", "[model] mean = [1.0]: too few values"),
            ('[model]\nclasses = ["a", "a"]', "a class is named twice"),
            ('[intake]\nwindow = "25:00-26:00"', "[intake] window"),
            ('[paths]\nstate = ""', "[paths] state"),
            ('[paths]\nstate = "a\\u0000"', "[paths] state"),
            ('[paths]\nstate = "models/"', "[paths] inbox, state and models must be three folders"),
            ('[paths]\ninbox = "."', "the inbox must not hold the others"),
            ('[database]\nurl = "mysql://u:secret@h/x"', "url = 'mysql://u:***@h/x': use sqlite:///FILE or postgresql://"),
            ("[database]\nbusy_timeout_seconds = 1e300", "less than or equal to 86400"),
        ],
    )
    def test_values_that_could_not_work(self, folder, text, said):
        """What would fail later, or mean nothing, is refused at once."""
        assert said in problem(folder, text)

    def test_text_that_is_no_utf8(self, folder):
        """Bytes in a variable that are no text are named, not a crash."""
        assert problem(folder, "", {"ADAPTD_PATHS__STATE": "\udcff"}) == "ADAPTD_PATHS__STATE: [paths] state: not valid UTF-8"

    def test_a_file_is_no_project(self, folder):
        """Who names adaptd.toml itself is told to name its folder."""
        with pytest.raises(ProjectNotFound, match="name the project's folder"):
            load_project(folder / "adaptd.toml", {})

    def test_bad_names_are_refused(self, folder):
        """Names become paths and addresses."""
        for name in ("../x", "A", "", "a" * 64, "a b"):
            assert "[model] name" in problem(folder, f'[model]\nname = "{name}"')


class TestMethods:
    def test_options_come_from_every_layer(self, folder):
        """A method's section is read like any other, and each value knows its origin; other methods' sections may stand there."""
        (folder / "adaptd.toml").write_text(
            '[method]\nname = "guarded"\n[method.guarded]\nwarp = 0.5\n[method.grcl]\nnegatives = 7\n'
        )
        environ = {"ADAPTD_METHOD__GUARDED__MIXUP": "0.1", "ADAPTD_METHOD__SELF_TRAINING__CURRICULUM": "false"}
        project = load_project(folder, environ, {"method.guarded.views": 2})
        method = project.settings.method
        assert (method.guarded.warp, method.guarded.mixup, method.guarded.views) == (0.5, 0.1, 2)
        assert (method.grcl.negatives, method.self_training.curriculum) == (7, False)
        assert [
            project.origins[f"method.{name}"] for name in ("guarded.warp", "guarded.mixup", "guarded.views", "grcl.negatives")
        ] == [
            str(folder / "adaptd.toml"),
            "ADAPTD_METHOD__GUARDED__MIXUP",
            "--views",
            str(folder / "adaptd.toml"),
        ]
        assert project.origins["method.grcl.temperature"] == "default"

    def test_an_option_that_a_method_does_not_have_names_where_it_belongs(self, folder):
        """In the file, in a variable, and for the section itself."""
        assert "[method.grcl] warp: unknown key; it belongs under [method.guarded] or [method.self_training]" in problem(
            folder, "[method.grcl]\nwarp = 1.0"
        )
        said = problem(folder, "", {"ADAPTD_METHOD__CONTRASTIVE_SDC__CONSTRAINTS": "per-domain"})
        assert said == (
            "ADAPTD_METHOD__CONTRASTIVE_SDC__CONSTRAINTS: [method.contrastive_sdc] constraints: unknown key; "
            "it belongs under [method.grcl] or [method.gra]"
        )
        assert "[method.garded]: unknown section; did you mean [method.guarded]?" in problem(
            folder, "[method.garded]\nwarp = 1.0"
        )
        assert "[method.garded]: unknown section; did you mean [method.guarded]?" in problem(folder, "[method.garded]\n")
        assert "[method.guarded] warp = 'x': input should be a valid number" in problem(folder, "[method.guarded]\nwarp = 'x'")
        assert "[method.guarded] wrap: unknown key; did you mean warp?" in problem(folder, "[method.guarded]\nwrap = 1.0")
        assert "[method]" in problem(folder, "[method.name]\nx = 1.0")

    def test_what_the_method_would_ignore_is_an_error(self, folder):
        """It names the place, the fact and the remedy; with a method that has a use for it, it is taken."""
        text = "[training]\nmomentum = 0.9\n"
        assert problem(folder, text) == (
            f"{folder}/adaptd.toml: [training] momentum = 0.9: does nothing with rmsprop, the update rule of guarded: "
            "set it to 0, or optimizer to sgd"
        )
        assert load_project(folder, {"ADAPTD_METHOD__NAME": "grcl"}).settings.training.momentum == 0.9
        assert load_project(folder, {"ADAPTD_TRAINING__OPTIMIZER": "sgd"}).settings.training.momentum == 0.9


class TestRenamed:
    @pytest.mark.parametrize("old", RENAMED)
    def test_an_old_name_is_answered_with_the_new_one(self, folder, old):
        """From the file, the environment and the command line; and the new names exist."""
        section, key = old.split(".")
        new = " or ".join("[{}] {}".format(*name.rsplit(".", 1)) for name in RENAMED[old])
        assert f"[{section}] {key}: unknown key; it is {new} today" in problem(folder, f"[{section}]\n{key} = 1")
        (folder / "adaptd.toml").write_text("")
        variable = f"ADAPTD_{section.upper()}__{key.upper()}"
        variables = " or ".join(f"ADAPTD_{name.replace('.', '__').upper()}" for name in RENAMED[old])
        assert f"{variable}: [{section}] {key}: unknown key; it is {variables} today" in problem(folder, "", {variable: "1"})
        (folder / "adaptd.toml").write_text("")
        with pytest.raises(ConfigError, match="unknown key; it is"):
            load_project(folder, {}, {old: 1})
        assert set(RENAMED[old]) <= set(setting_names())
        assert old not in setting_names()

    def test_stored_settings_are_rewritten(self):
        """What an older version stored is taken by this one, with every value where it belongs now; the document itself stays."""
        old = Settings().model_dump(mode="json")
        flat = {"name": "grcl", "constraints": "per-domain", "temperature": 0.1, "negatives": 9, "bank_momentum": 0.25}
        flat |= {"source_weight": 2.0, "memory_weight": 3.0, "min_agreement": 0.5, "patience": 1, "curriculum": False}
        old["method"] = flat | {"warp": 0.5, "blend": 0.2, "propagate": False, "views": 2}
        for section, key in (("gate", "max_source"), ("gate", "max_domain"), ("export", "quantized_max")):
            del old[section][f"{key}_loss"]
            old[section][f"{key}_drop"] = 0.5
        before = copy.deepcopy(old)
        new = Settings.model_validate_json(json.dumps(rename_settings(old)))
        assert old == before
        assert (new.gate.max_source_loss, new.gate.max_domain_loss, new.export.quantized_max_loss) == (0.5, 0.5, 0.5)
        assert (new.method.name, new.method.grcl.constraints, new.method.contrastive_sdc.negatives) == ("grcl", "per-domain", 9)
        assert (new.method.contrastive_source.source_weight, new.method.contrastive_source_memory.memory_weight) == (2.0, 3.0)
        assert (new.method.guarded.mixup, new.method.self_training.views, new.method.guarded.curriculum) == (0.2, 2, False)
        assert rename_settings(new.model_dump(mode="json")) == new.model_dump(mode="json"), "what is new stays"

    @pytest.mark.parametrize(
        ("method", "optimizer", "left"),
        [
            ("guarded", "auto", (0.0, 0.0)),
            ("guarded", "adamw", (0.0, 0.1)),
            ("grcl", "auto", (0.9, 0.1)),
            ("grcl", "rmsprop", (0, 0)),
        ],
    )
    def test_what_was_ignored_is_forgotten(self, method, optimizer, left):
        """Momentum and weight decay that an older version took and ignored would be an error."""
        training = {"optimizer": optimizer, "momentum": 0.9, "weight_decay": 0.1}
        found = rename_settings({"method": {"name": method, "blend": 0.3}, "training": training})
        assert (found["training"]["momentum"], found["training"]["weight_decay"]) == left


class TestTemplate:
    def test_the_shipped_file_is_current(self):
        """The top-level adaptd.toml is what the settings render to."""
        assert (REPOSITORY / "adaptd.toml").read_text() == render_toml(), "run: python -m adaptd.project.toml > adaptd.toml"

    def test_it_says_the_defaults(self):
        """Every key is there with its default, as a comment, of the methods' options those of the chosen one."""
        for method in ("guarded", "grcl", "source-only"):
            text = render_toml({"method.name": method})
            assert parse_settings(text) == Settings(method=MethodSettings(name=method))
            text = re.sub("(?m)^#(?=[a-z])", "", text)
            assert parse_settings(text) == Settings(method=MethodSettings(name=method))
            others = [name for name in setting_names() if name.count(".") == 2 and not name.startswith(f"method.{method}.")]
            assert _names(tomllib.loads(text)) == [name for name in setting_names() if name not in others]

    def test_only_what_differs_is_set(self):
        """Better defaults reach old projects; what the model is made with stays."""
        found = tomllib.loads(render_toml({"training.epochs": 3, "training.seed": Settings().training.seed}))
        assert {name: values for name, values in found.items() if values and name not in {"model", "method"}} == {
            "training": {"epochs": 3}
        }
        assert list(found["model"]) == list(Settings().model.model_dump())

    def test_every_key_is_described(self):
        """No key without a sentence."""
        assert all(field.description for section in sections().values() for field in list_keys(section).values())
