// Access of one device to another's memory. Copies work without it; a kernel that touches a peer's memory needs it.
#include "tests/sim/driver/use_context.h"

using namespace simcuda;

SIM_DRIVER(cuDeviceCanAccessPeer, 4000, cuDeviceCanAccessPeer, (int* canAccessPeer, CUdevice dev, CUdevice peerDev),
           (canAccessPeer, dev, peerDev)) {
  if (canAccessPeer == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (dev < 0 || dev >= kDeviceCount || peerDev < 0 || peerDev >= kDeviceCount) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *canAccessPeer = dev != peerDev ? 1 : 0;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuDeviceGetP2PAttribute, 8000, cuDeviceGetP2PAttribute,
           (int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice),
           (value, attrib, srcDevice, dstDevice)) {
  if (value == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (srcDevice < 0 || srcDevice >= kDeviceCount || dstDevice < 0 || dstDevice >= kDeviceCount ||
      srcDevice == dstDevice) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ? 1 : 0;
  return CUDA_SUCCESS;
}

SIM_DRIVER(cuCtxEnablePeerAccess, 4000, cuCtxEnablePeerAccess, (CUcontext peerContext, unsigned int Flags),
           (peerContext, Flags)) {
  SIM_USE_CONTEXT()
  auto* peer = reinterpret_cast<Context*>(peerContext);
  if (Flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!IsContext(world, peer)) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (peer->device == context->device) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return context->peers.insert(peer).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

SIM_DRIVER(cuCtxDisablePeerAccess, 4000, cuCtxDisablePeerAccess, (CUcontext peerContext), (peerContext)) {
  SIM_USE_CONTEXT()
  return context->peers.erase(reinterpret_cast<Context*>(peerContext)) == 1 ? CUDA_SUCCESS
                                                                            : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}
