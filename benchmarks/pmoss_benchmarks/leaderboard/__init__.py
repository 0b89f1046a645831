"""The leaderboard: agents on instances that are secret until a release.

A round begins with the digest of a secret. The seeds of its instances derive from the secret, which
is revealed with a release. Every row holds its actions, so that anybody can replay it.
"""
