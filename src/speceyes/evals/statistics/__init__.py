"""Pure statistics: from counts and times to figures with intervals. Nothing here reads a file or asks a model."""
