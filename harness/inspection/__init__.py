"""What a submission's Triton kernels compile to for a target that need not be here."""
