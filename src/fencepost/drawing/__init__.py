"""What facts look like: where bars, marks, axes and letters lie. Pure, so that every door draws the same."""
