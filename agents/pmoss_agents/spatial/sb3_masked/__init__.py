"""The parts of Stable-Baselines3 that know of masks and tiles; they need the extra online."""
