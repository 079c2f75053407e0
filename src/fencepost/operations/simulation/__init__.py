"""What if: a user's own schedules on the real code, under a clock that is moved instead of waited for."""
