"""A cluster under churn for as long as one likes."""
