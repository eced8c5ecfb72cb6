"""How soon many waiting routers know of a change, and what that costs."""
