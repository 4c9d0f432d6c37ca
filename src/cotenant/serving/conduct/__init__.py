"""The scheduler at work: requests in, instructions to workers, answers back."""
