"""Checks before a release, as commands: the checklist, the audit of dependencies, the supported
environments, untested branches, a newcomer's walk, and the prose that users read.
"""
