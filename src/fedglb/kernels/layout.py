"""Where kernels find what every learner's state has: places in its arrays."""

#: In `vectors`: the model θ, and the centre of the ellipsoid.
THETA, CENTRE = 0, 1
#: In `matrices`: A and A⁻¹.
MATRIX, INVERSE = 0, 1
#: In `counters`: the gain of log det A since the last model, samples since then, the epoch.
LOG_GAIN, UPDATES, EPOCH = 0, 1, 2
#: In a link's addresses: μ, μ′, and the cumulant m.
MEAN, VARIANCE, CUMULANT = 0, 1, 2
