"""What every table shares: cases, records, estimates, scores, files."""
