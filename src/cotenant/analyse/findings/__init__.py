"""What a run was about, in a sentence or two: the knee of a load, the best clock, where time goes, who may share."""
