"""The GPU suite behind tools/gpu-suite: one module for each group of checks. docs/gpu-suite.md says what each shows."""
