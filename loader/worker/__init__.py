"""The worker: joins pulling, decoding, fitting, learning and copying, and keeps them going until it is told to stop.

It acks only what was committed, and nacks what it leaves."""
