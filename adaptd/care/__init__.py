"""Checking and mending a project: fsck, gc, giving quarantined files back."""
