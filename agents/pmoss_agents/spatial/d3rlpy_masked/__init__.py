"""d3rlpy made aware of masks, from outside: factories and learnables registered with it, no fork.

d3rlpy knows no masks. Here they are a part of the observation tuple, and the networks give every
forbidden tile the score FORBIDDEN: maxima, soft maxima and samples over all tiles, of this state
or the next one, are then maxima, soft maxima and samples over the allowed ones.

Importing any module of this folder needs the extra ``d3rlpy``.
"""
