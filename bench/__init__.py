"""Measurements that stand beside the toolkit's own: public kernels on the same inputs."""
