"""What runs say about interference, in the form that predictions are made from."""
