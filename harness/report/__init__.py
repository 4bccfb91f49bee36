"""Shows an evaluation: the platform's text and wire lines, terminal tables, JSON. One form a file, over one record."""
