"""SpecEyes: speculative execution for agentic vision-language models."""
