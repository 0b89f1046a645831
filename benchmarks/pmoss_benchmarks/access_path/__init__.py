"""The hardware-offload paper: models, statements, figures; see functions.access_path."""
