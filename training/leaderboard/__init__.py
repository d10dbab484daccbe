"""The entries of the leaderboard: prepare models and data, and run the benchmark of each.

models     a folder of models that load by name, from shared folders and packages
molecules  places in molecules that a model can be asked for: ring numbers and brackets
rows       which model is judged on which data, and by which command
run        the commands, within a time limit
papers     the papers' experiments on the same models
answers    the scores of the documents of prompts, by the methods of document_methods

docs/leaderboard_pages.py writes the pages from what they leave.
"""
