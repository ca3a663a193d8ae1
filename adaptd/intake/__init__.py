"""The inbox: scanning, settling, watching, claiming drops. Knows files and folders; not the store, not pictures."""
