"""What a node does for honest callers while others try to bring it down."""
