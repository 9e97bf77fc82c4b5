"""The statistics of rows on a GPU, by fused Triton programs; imported only where there are CUDA tensors."""
