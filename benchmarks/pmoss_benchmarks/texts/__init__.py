"""Pages of the documentation, made from the committed results: ``pmoss dev report``."""
