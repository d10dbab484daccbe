"""How the two models that ship with mixlens are made: text, grammar, training, evaluation, model
cards.
"""
