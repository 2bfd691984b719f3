#pragma once

// Marks what libvram.so exports; everything else in it is hidden.

#if defined(__GNUC__)
#define VRAM_API __attribute__((visibility("default")))
#else
#define VRAM_API
#endif
