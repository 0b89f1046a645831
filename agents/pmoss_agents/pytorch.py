"""PyTorch, with an error that names the extra where it is not installed."""

from __future__ import annotations

from pmoss_env.extras import require

require("torch")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

__all__ = ["F", "Tensor", "nn", "torch"]
