"""Neural tangent kernels: empirical ones of the suite's nets, exactly and in tiles.

    gram.py     Theta = J J^T of a net on data: the full eNTK, the pNTK, a single output, the trace
    layers.py   what each layer type adds to Theta, derived from J J^T, and how the cheapest way is chosen
    store.py    a kernel on disk, written tile by tile and resumed after a kill

Letters: N points, O outputs, S rows of Theta per point, P parameters; of a convolution C output channels, T output
positions, D patch size (input channels x kernel height x kernel width).
"""
