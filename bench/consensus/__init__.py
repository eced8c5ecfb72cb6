"""Writes through consensus: this project's layer beside PySyncObj as it is shipped."""
