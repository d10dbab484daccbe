"""`mixlens serve`: the viewer with live models behind it.

api.py says what is asked and answered, work.py measures, jobs.py queues, guard.py keeps strangers
out, server.py puts them together (extra `web`).
"""
