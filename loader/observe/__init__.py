"""What a worker shows of itself: metrics, health, a CPU profile, and the HTTP server that offers them.
Nothing here touches a message; the worker reports once a bundle."""
