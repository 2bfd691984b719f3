#pragma once

// Which sanitizer this is built with, as both compilers say it.

namespace vram::base {

#ifdef __has_feature
#define VRAM_HAS_FEATURE(name) __has_feature(name)
#else
#define VRAM_HAS_FEATURE(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || VRAM_HAS_FEATURE(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__) || VRAM_HAS_FEATURE(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr bool kSanitized = kAddressSanitizer || kThreadSanitizer;

#undef VRAM_HAS_FEATURE

}  // namespace vram::base
