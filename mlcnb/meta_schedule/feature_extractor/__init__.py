"""What a cost model sees of a program."""

from mlcnb.meta_schedule.feature_extractor.per_store import (
    FeatureExtractor,
    PerStoreFeature,
    RandomFeatureExtractor,
)

PyFeatureExtractor = FeatureExtractor

__all__ = ["FeatureExtractor", "PerStoreFeature", "PyFeatureExtractor", "RandomFeatureExtractor"]
