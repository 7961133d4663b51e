"""Files that are shipped to start from: routers, load tests, regions, and the GPS feed with its schema.
Tests run them as they are."""
