"""Labels that people give to images which came without: chosen, read, kept, and measured on."""
