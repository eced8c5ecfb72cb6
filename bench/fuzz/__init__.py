"""Bytes from nowhere, thrown at whatever reads bytes of a peer or of a disk."""
