"""The main finding of a run in a sentence or two: a load's knee, the best clock, where time goes, who may share."""
