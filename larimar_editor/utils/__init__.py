"""Text, validation, devices, locks."""
