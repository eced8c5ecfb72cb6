"""How level a fleet becomes under hashing, two published rules and this planner, on real loads."""
