/// volk's own code, which opens the loader (libvulkan.so.1) at run time.
#define VOLK_IMPLEMENTATION
#include <volk.h>
