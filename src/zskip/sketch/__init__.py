"""Sketches of the values of files, which skip more files than bounds alone."""

from zskip.sketch.base import Answer, LeftOut, Sketch, counted
from zskip.sketch.blob import pack_arrays, seal, unpack_arrays, unseal
from zskip.sketch.guard import BuiltState, StateBuilder, ask, fit_budget, read_states
from zskip.sketch.implication import are_same, implies, normal, subjects
from zskip.sketch.kinds.bloom import Bloom
from zskip.sketch.kinds.geo import Geo, geo_distance
from zskip.sketch.kinds.matches import Matches
from zskip.sketch.kinds.ngram import Ngram
from zskip.sketch.kinds.prefix import Prefix
from zskip.sketch.kinds.ranges import Ranges
from zskip.sketch.kinds.values import ValueSet
from zskip.sketch.registry import kinds, parse_sketch, register
from zskip.sketch.sketch_on import FileSketches, SketchOn, parse_sketch_on, sketch_on

__all__ = [
    "Answer",
    "Bloom",
    "BuiltState",
    "FileSketches",
    "Geo",
    "LeftOut",
    "Matches",
    "Ngram",
    "Prefix",
    "Ranges",
    "Sketch",
    "SketchOn",
    "StateBuilder",
    "ValueSet",
    "are_same",
    "ask",
    "counted",
    "fit_budget",
    "geo_distance",
    "implies",
    "kinds",
    "normal",
    "pack_arrays",
    "parse_sketch",
    "parse_sketch_on",
    "read_states",
    "register",
    "seal",
    "sketch_on",
    "subjects",
    "unpack_arrays",
    "unseal",
]

register(Geo)
