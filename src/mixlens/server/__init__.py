"""`mixlens serve`: the viewer with live models.

api.py defines requests and responses, work.py measures, jobs.py queues, guard.py checks requests,
and server.py connects them (extra `web`).
"""
