"""The settings that count for an episode, from its first step to its version's proof: those that it was queued with."""

import json
from dataclasses import replace
from typing import Any

from adaptd.project.layers import Project
from adaptd.project.renamed import rename_settings
from adaptd.project.settings import Settings
from adaptd.records import Episode


def resolve_project(project: Project, episode: Episode) -> Project:
    """The project with the settings of an episode.

    Where things lie, what they run on, and under which name clients find the model, is as the project has it: that may have moved
    meanwhile, and passwords are not kept with an episode.
    """
    stored = Settings.model_validate_json(json.dumps(rename_settings(episode.config)))
    given = project.settings
    sections: dict[str, Any] = {name: getattr(stored, name) for name in Settings.model_fields}
    sections |= {"paths": given.paths, "database": given.database}
    sections["training"] = stored.training.model_copy(update={"device": given.training.device})
    sections["model"] = stored.model.model_copy(update={"name": given.model.name})
    return replace(project, settings=Settings(**sections))
