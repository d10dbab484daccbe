"""What is done before a release, as commands: the checklist, the audit of dependencies, the
environments that are supported, and a newcomer's walk.
"""
