"""Commands of datasets."""
