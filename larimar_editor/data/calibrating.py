"""With what scope is calibrated where nothing else is said; apart from what does it, so that the command's
help loads none of that.
"""

from __future__ import annotations

# Shares that may be accepted of other questions about a written subject, and of the same questions about
# other subjects.
QUESTIONS_ACCEPTED = 0.02
SUBJECTS_ACCEPTED = 0.01
# Made-up facts: those that thresholds are calibrated on, and those that an internal detector is trained on.
MADE_UP_CASES = 600
TRAINING_CASES = 1500
