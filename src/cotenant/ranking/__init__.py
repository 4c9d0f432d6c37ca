"""Which of many pretrained models suits this data: the same ranking as trying them all, sooner."""
