"""PyTorch, with an error that names the extra where it is not installed."""

from __future__ import annotations

from pmoss_env.errors import MissingExtraError

try:
    import torch
    from torch import Tensor, nn
    from torch.nn import functional as F
except ImportError as error:
    raise MissingExtraError("torch", "agents") from error

__all__ = ["F", "Tensor", "nn", "torch"]
