"""What a release is made of: pinned versions with hashes, a bill of materials, one same wheel."""
