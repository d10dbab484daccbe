"""From maps of single layers to one map that reaches back to the input: rollout (a product) and
flow (a network).
"""
