"""The dashboard: pages over HTTP and, with the same content, one file to send to someone.

A page is a function that makes plain values from the store; templates turn them into HTML. Nothing is decided here.
"""
