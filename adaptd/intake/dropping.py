"""Putting a folder into an inbox, as a copy that is complete from the moment it is seen. Taking it out is `claiming`'s work."""

import os
from pathlib import Path

from adaptd.beneath import opened, rename
from adaptd.errors import ClaimRefused, FolderUnusable
from adaptd.files import remove, sync, write_file
from adaptd.intake.copying import copy_tree
from adaptd.intake.names import READY_MARK, find_domain_name
from adaptd.text import printable


def drop_folder(folder: Path, inbox: Path, name: str) -> Path:
    """Copy a folder into the inbox under this name; it appears by one rename, and its `_READY` spares it the wait.

    Raises:
        FolderUnusable: there is nothing to copy, not all of it can be, or the name is taken or no name for a domain.
        OSError: the disk is full or broken; nothing is left of the copy.
    """
    if find_domain_name(name) is None:
        raise FolderUnusable(
            f"{name!r} is not a name for a domain: give another, without a slash or a dot before it, not `source`"
        )
    if inbox.resolve().is_relative_to(folder.resolve()):
        raise FolderUnusable(f"the inbox is in {printable(folder)}: drop a folder of images")
    draft = inbox / f".dropping-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        copy = copy_tree(folder, draft)
        if copy.left:
            raise FolderUnusable(f"not all of {printable(folder)} can be copied: {'; '.join(copy.left)}")
        if not (draft / READY_MARK).exists():
            write_file(draft / READY_MARK, b"")
        sync(draft)
        with opened(inbox, follow=True) as place:
            rename(place, draft.name, place, name)
    except FileExistsError as problem:
        raise FolderUnusable(f"{name} is in the inbox already: wait until it is taken, or give another name") from problem
    except ClaimRefused as problem:
        raise FolderUnusable(f"nothing in {printable(folder)} can be copied: drop a folder of images") from problem
    finally:
        remove(draft)
    sync(inbox)
    return inbox / name
