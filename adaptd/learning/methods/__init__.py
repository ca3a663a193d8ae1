"""One file a method, all behind the protocol in protocol.py. The loop knows only the protocol."""
