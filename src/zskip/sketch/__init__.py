"""Sketches of the values of files, by which more files are skipped than by their bounds."""

from zskip.sketch.base import Answer, LeftOut, Sketch, counted
from zskip.sketch.blob import pack_arrays, seal, unpack_arrays, unseal
from zskip.sketch.guard import Made, Maker, Read, ask, make, read, within
from zskip.sketch.kinds.bloom import Bloom
from zskip.sketch.kinds.geo import Geo, geo_distance
from zskip.sketch.kinds.ngram import Ngram
from zskip.sketch.kinds.prefix import Prefix
from zskip.sketch.kinds.ranges import Ranges
from zskip.sketch.kinds.values import ValueSet
from zskip.sketch.on import Sketched, SketchOn, parse_sketch_on, sketch_on
from zskip.sketch.recipe import follow
from zskip.sketch.registry import kinds, parse_sketch, register

__all__ = [
    "Answer",
    "Bloom",
    "Geo",
    "LeftOut",
    "Made",
    "Maker",
    "Ngram",
    "Prefix",
    "Ranges",
    "Read",
    "Sketch",
    "SketchOn",
    "Sketched",
    "ValueSet",
    "ask",
    "counted",
    "follow",
    "geo_distance",
    "kinds",
    "make",
    "pack_arrays",
    "parse_sketch",
    "parse_sketch_on",
    "read",
    "register",
    "seal",
    "sketch_on",
    "unpack_arrays",
    "unseal",
    "within",
]

register(Geo)
