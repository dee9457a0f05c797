"""Index arithmetic: what can be simplified and proved."""

from .te._functor import Analyzer

__all__ = ["Analyzer"]
