"""Benchmark data: procedural sign scenes, and the public benchmarks' file formats."""
