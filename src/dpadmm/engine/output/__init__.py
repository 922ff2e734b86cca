"""What a run writes: its folder, history, status and checkpoint, and the model read back."""
