"""The versions of a project: published, promoted, rolled back, compared."""
