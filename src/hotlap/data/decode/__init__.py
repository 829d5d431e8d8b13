"""Turn encoded images into uint8 RGB arrays, strictly."""

from hotlap.data.decode.decoder import Decoder as Decoder
