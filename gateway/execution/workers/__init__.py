"""Processes that plan and run statements, so that none can harm the others.

The front process speaks Flight SQL, knows rights and limits, writes rows, and looks up keys. Whatever enters
DataFusion runs in one of a few worker processes, which can be killed and replaced. Planning a statement gives
a `RemoteQuery`; it asks the pool for a worker, and talks to it through a channel.
"""
