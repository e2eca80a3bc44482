"""Jobs of the pipeline that users start: which there are, their processes, and their paths in the API.

A job is a child process that runs `lance-gateway pipeline ..`, so that the gateway neither loads the
pipeline nor suffers from what becomes of it.
"""
