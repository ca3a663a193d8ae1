"""What adaptd remembers: tables, transactions, schema check, a repository class per record kind.

The only user of SQLAlchemy. Other rooms import from here, never from the modules inside.
"""

from adaptd.store.drops import NewDrop
from adaptd.store.episodes import NewEpisode
from adaptd.store.store import Store, Transaction
from adaptd.store.versions import NewVersion

__all__ = ["NewDrop", "NewEpisode", "NewVersion", "Store", "Transaction"]
