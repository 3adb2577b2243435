"""The language: what programs are written with."""
