"""Sinks: where frames go. A sink confirms each frame, refuses it for good, or keeps trying."""
