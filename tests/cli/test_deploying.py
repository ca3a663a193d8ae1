"""The guide to deploying: its client for plain onnxruntime runs against a published version as it is written there."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "deploying.md"


def test_the_client_in_the_guide_answers_as_adaptd_does(project, adaptd, tmp_path):
    """At most 30 lines, and the same classes and probabilities as `adaptd predict`, also for alpha and other shapes."""
    random = np.random.default_rng(0)
    for name, low in (("dark", 0), ("light", 128)):
        for number in range(12):
            path = tmp_path / "photos" / name / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(low, low + 128, (24, 40, 3), dtype=np.uint8)).save(path)
    run = adaptd("--project", project, "source", "import", tmp_path / "photos", "--epochs", 30)
    assert run.returncode == 0, run.stderr
    Image.fromarray(random.integers(0, 256, (30, 20, 4), dtype=np.uint8)).save(tmp_path / "alpha.png")
    pictures = [tmp_path / "alpha.png", *sorted((tmp_path / "photos").glob("*/1.png"))]

    code = re.findall(r"runs this -->\n```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[0]
    assert len(code.splitlines()) <= 30
    (tmp_path / "client.py").write_text(code)
    command = [sys.executable, tmp_path / "client.py", project / "models" / project.name, *pictures]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    answers = json.loads(adaptd("--project", project, "predict", *pictures, "--json").stdout)["predictions"]
    assert len(told) == len(answers) == 3
    for line, answer in zip(told, answers, strict=True):
        path, label, probability = line.rsplit(" ", 2)
        assert (path, label) == (answer["image"], answer["label"])
        assert abs(float(probability) - answer["probability"]) < 1e-4
