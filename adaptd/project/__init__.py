"""What a project is: its settings and their layers, its folders, its lock."""
