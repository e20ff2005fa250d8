"""Records a run of an unedited training script; torch and the standard library only."""
