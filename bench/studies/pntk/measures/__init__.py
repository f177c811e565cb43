"""What a cell of the pseudo-NTK study measures, one module each: `measure(cell, settings, data, device, journal)`.

kernels     the eNTK beside the pNTK, at every moment of training                      figs 3.2 to 3.8, 3.13, A.5 to A.8
full        regression with the pNTK of a whole dataset                                figs 3.9 to 3.12, 3.14, A.9
pair        seconds for one pair of inputs                                             fig 3.1
surrogates  what else might stand for the eNTK, by error, agreement, time and memory   not in the thesis
"""
