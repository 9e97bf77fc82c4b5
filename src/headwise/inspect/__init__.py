"""Does a real head do it? Statistics of attention on a user's own text, at any length, without the map."""

from headwise.inspect.bridge import Prediction, predict
from headwise.inspect.model import model
from headwise.inspect.report import HeadReport, LayerReport
from headwise.inspect.statistics import HeadStatistics, statistics
from headwise.inspect.ties import Ties
from headwise.inspect.verdict import HeadVerdict, Thresholds

__all__ = [
    "HeadReport",
    "HeadStatistics",
    "HeadVerdict",
    "LayerReport",
    "Prediction",
    "Thresholds",
    "Ties",
    "model",
    "predict",
    "statistics",
]
