// A library that is not the driver and has functions named like the driver's, as the libraries
// built on CUDA do.
extern "C" {
int cuMemAlloc_v2() { return 4711; }
int cuDNNLikeCreate() { return 4712; }
}
