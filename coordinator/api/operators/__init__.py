"""What operators ask and order: one module per noun of their paths."""
