"""A pipeline of CuPy arrays: filters, transforms, sorting and statistics of batches of changing size. CuPy's pool would
hide the arrays, so they are allocated stream-ordered from the driver."""

import random

import common


def process(cupy, samples, channels):
    signal = cupy.random.standard_normal((channels, samples), dtype=cupy.float32)
    spectrum = cupy.fft.rfft(signal, axis=1)
    frequencies = cupy.linspace(0, 1, spectrum.shape[1], dtype=cupy.float32)
    spectrum *= cupy.exp(-10 * frequencies)
    smooth = cupy.fft.irfft(spectrum, n=samples, axis=1).astype(cupy.float32)
    power = cupy.abs(spectrum)**2
    strongest = cupy.argsort(power[:, :4096], axis=1)[:, -16:]
    covariance = (smooth - smooth.mean(axis=1, keepdims=True)) @ smooth.T / samples
    edges = cupy.percentile(smooth[0], cupy.asarray([5.0, 50.0, 95.0]))
    kept = smooth[smooth > edges[2]]
    return float(covariance.trace()) + float(kept.size) / samples + float(strongest.max())


def main():
    steps = common.Steps(common.arguments(steps=300))
    import cupy
    cupy.cuda.set_allocator(cupy.cuda.malloc_async)
    cupy.random.seed(common.SEED)
    sizes = random.Random(common.SEED)
    results = []
    for _ in steps:
        # Sizes whose transforms are quick, so that it is the memory that varies.
        samples = sizes.choice((1 << 17, 1 << 18, 3 << 17, 1 << 19, 5 << 17, 1 << 20))
        results.append(process(cupy, samples, sizes.choice((16, 32, 64, 96))))
        history = cupy.asarray(results)
    cupy.cuda.Device().synchronize()
    steps.report("cupy_pipeline", history.mean())


if __name__ == "__main__":
    main()
