"""Programs in RASP, compiled into transformers' own GPT-2, with the sources of their outputs.

programs  what they compute
sources   what an expression gives at a place, and which tokens are carried there
porting   Tracr's weights as a GPT-2
run       all of it, into the archive that ships with the package

Needs the extra `tracr` (`pip install 'mixlens[tracr]'`: Tracr and jax).
"""
