"""The page of measured results (tools/results-page): page.py puts it together, the other files each write some of its tables."""
