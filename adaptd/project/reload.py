"""Settings read again while a daemon runs: what it takes over, and what waits for its next start."""

from collections.abc import Sequence

from adaptd.project.layers import Project, load_project

FIXED = ("paths", "model", "metrics", "database", "logging")
"""Sections that a reload does not change."""


def reload_project(project: Project, assignments: Sequence[str] = ()) -> tuple[Project, list[str]]:
    """The project with the settings that its file has by now, and the sections whose changes have to wait.

    Args:
        project: as it was read last.
        assignments: stronger than the file, as `section.key=value`.

    Raises:
        ConfigError: the file is wrong.
        OSError: it cannot be read.
    """
    loaded = load_project(project.root, assignments=assignments)
    old, new = project.settings, loaded.settings
    waiting = [section for section in FIXED if getattr(old, section) != getattr(new, section)]
    kept = {section: getattr(old, section) for section in waiting}
    return Project(loaded.root, new.model_copy(update=kept), loaded.origins), waiting
