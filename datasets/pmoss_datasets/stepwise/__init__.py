"""A domain out of any Gymnasium environment with discrete actions: see StepDomain."""

from pmoss_datasets.stepwise.domain import StepDomain
from pmoss_datasets.stepwise.policies import Rule, RulePolicy
from pmoss_datasets.stepwise.schema import StepEpisode, StepMetadata

__all__ = ["Rule", "RulePolicy", "StepDomain", "StepEpisode", "StepMetadata"]
