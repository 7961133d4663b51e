"""The HCL file: read, checked and turned into plain data that the engine runs."""
