"""Run the scheduler: requests in, instructions to workers, answers back."""
