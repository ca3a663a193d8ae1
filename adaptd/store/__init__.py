"""What adaptd remembers: tables, transactions, schema check, a repository class per record kind.

The only user of SQLAlchemy.
"""
