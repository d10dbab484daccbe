"""`mixlens serve`: the viewer with live models.

api.py defines requests and responses, choices.py lists the measures of each model, work.py measures
texts, answering.py answers prompts, jobs.py queues jobs, guard.py checks requests, and server.py
connects these modules. It needs the extra `web`.
"""
