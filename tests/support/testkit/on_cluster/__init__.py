"""A real cluster: images, a release of the chart, one queue with its pods, what its workers recorded."""
